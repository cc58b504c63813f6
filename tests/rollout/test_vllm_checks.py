"""What the vLLM engine checks and prepares without vLLM; tests/vllm holds the engine itself to its laws."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedConfig, Qwen3Config, Qwen3MoeConfig

from rlzoo.config import load_config
from rlzoo.errors import UserError
from rlzoo.rollout import check_engine
from rlzoo.rollout.base import checkpoint_weights

SMALL: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
}
EXPERTS = {"num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 12}


@pytest.mark.parametrize(
    "config",
    [
        LlamaConfig(**SMALL, tie_word_embeddings=False),
        Qwen3Config(**SMALL, tie_word_embeddings=True),
        Qwen3MoeConfig(**SMALL, **EXPERTS, tie_word_embeddings=True),
    ],
    ids=["untied", "tied", "fused experts"],
)
def test_weights_are_handed_over_as_a_checkpoint_has_them(config: PreTrainedConfig, tmp_path: Path) -> None:
    model = AutoModelForCausalLM.from_config(config)
    model.save_pretrained(tmp_path)
    expected, found = load_file(tmp_path / "model.safetensors"), dict(checkpoint_weights(model))
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    untied = dict(checkpoint_weights(model, untied={"lm_head.weight"}))
    assert untied.keys() == expected.keys() | {"lm_head.weight"}


def test_weights_that_are_left_out_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = AutoModelForCausalLM.from_config(LlamaConfig(**SMALL, tie_word_embeddings=True))
    some = dict(list(model.state_dict().items())[:-3])
    monkeypatch.setattr(model, "state_dict", lambda: some)
    with pytest.raises(RuntimeError, match=r"weights of LlamaForCausalLM were not handed over"):
        dict(checkpoint_weights(model))


def check(*words: str) -> None:
    """Checks the engine of a configuration."""
    check_engine(load_config(words))


class Installed(ModuleType):
    """A stand-in for an installation of vLLM."""

    def __init__(self, release: str, fault: Exception | None = None) -> None:
        super().__init__("vllm")
        self.__version__, self.fault = release, fault

    def __getattr__(self, name: str) -> Any:
        if name == "LLM" and self.fault is None:
            return object
        raise self.fault or AttributeError(name)


@pytest.mark.parametrize(
    ("module", "says"),
    [
        (None, ["vllm is not installed", "pip install 'rlzoo-llm[vllm]'", "rollout.engine=transformers"]),
        (Installed("0.31.2"), ["vllm 0.31.2 is too old", "vllm>=0.32"]),
        (Installed("0.33.0", RuntimeError("operator does\nnot exist")), ["cannot be imported", "operator does not"]),
    ],
    ids=["missing", "old", "broken"],
)
def test_an_installation_that_cannot_serve_is_named(
    module: ModuleType | None, says: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vllm", module)
    with pytest.raises(UserError) as error:
        check("rollout.engine=vllm")
    assert all(part in str(error.value) for part in ["rollout.engine=vllm", *says])


def test_an_installation_that_can_serve_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", Installed("0.32.0+cpu"))
    check("rollout.engine=vllm", "rollout.kv_cache_gib=0.5", "evaluation.decodings=[0/1]")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["rollout.kv_cache_gib=2"], ["rollout.kv_cache_gib=2", "no effect", "rollout.engine=transformers"]),
        (["rollout.engine=vllm", "rollout.noise=1"], ["rollout.noise=1", "no effect", "rollout.engine=vllm"]),
        (["rollout.engine=vllm", "rollout.temperature=0.001"], ["rollout.temperature=0.001", "0.01 to 2"]),
        (["rollout.engine=vllm", "evaluation.decodings=[2.5/1]"], ["evaluation.decodings=2.5", "0.01 to 2"]),
    ],
)
def test_settings_that_an_engine_would_not_follow_are_refused(words: list[str], says: list[str]) -> None:
    with pytest.raises(UserError) as error:
        check(*words)
    assert all(part in str(error.value) for part in says)
