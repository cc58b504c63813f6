"""The sampler's function is the trainer's whatever the architecture, and each weight arrives under its name."""

import dataclasses
import re
from contextlib import closing
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    LlamaConfig,
    PreTrainedConfig,
)

from rlzoo.config import ModelConfig, RolloutConfig, load_config
from rlzoo.errors import UserError
from rlzoo.model.policy import Policy
from rlzoo.model.tokenizer import Tokenizer
from rlzoo.rollout import check_engine, load_engine
from rlzoo.rollout.base import Sampling
from rlzoo.rollout.vllm_engine import VllmEngine
from tests.conftest import character_tokenizer

STOP = 13
PROMPTS = [[5, 6, 7, 8, 9, 10, 11, 12], [20], [30, 31, 32], [40] * 20]
ROLLOUT = RolloutConfig(engine="vllm", max_prompt_tokens=32, max_response_tokens=24, kv_cache_gib=0.25)
COMMON: dict[str, Any] = {
    "vocab_size": 300,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 64,
    "bos_token_id": None,
    "eos_token_id": STOP,
    "pad_token_id": None,
    "initializer_range": 0.2,
}
CONFIGS: dict[str, PreTrainedConfig] = {
    "an untied head": LlamaConfig(**COMMON, tie_word_embeddings=False),
    "softcaps and sliding windows": Gemma2Config(**COMMON, sliding_window=16, final_logit_softcapping=3.0),
}


def tiny_policy(name: str) -> Policy:
    torch.manual_seed(0)
    attention = "eager" if "softcaps" in name else "sdpa"
    model = AutoModelForCausalLM.from_config(CONFIGS[name], attn_implementation=attention)
    return Policy(model.float(), Tokenizer(character_tokenizer(), frozenset({STOP}), 64, False))


@pytest.mark.parametrize("name", CONFIGS)
def test_log_probs_are_the_policys_own(name: str) -> None:
    policy = tiny_policy(name)
    with closing(VllmEngine(policy, policy.tokenizer, ROLLOUT, ModelConfig())) as engine:
        rollouts = engine.generate(PROMPTS, 6, Sampling(24), seed=0)
    with torch.no_grad():
        stats = policy(rollouts.responses(), 1.0)
    assert stats.logp[rollouts.mask].std() > 0.3, "a model that says little would hide a wrong weight"
    torch.testing.assert_close(rollouts.logp, stats.logp, rtol=0, atol=1e-4)


def test_two_starts_of_an_architecture_have_one_key_in_vllms_cache_of_compiled_code_and_another_has_its_own() -> None:
    keys = []
    for name in ("an untied head", "an untied head", "softcaps and sliding windows"):
        policy = tiny_policy(name)
        with closing(VllmEngine(policy, policy.tokenizer, ROLLOUT, ModelConfig())) as engine:
            keys.append(engine.llm.llm_engine.vllm_config.compute_hash())
    assert keys[0] == keys[1] != keys[2]


def test_an_engine_that_did_not_take_the_weights_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VllmEngine, "_load_weights", lambda engine: None)
    policy = tiny_policy("an untied head")
    with pytest.raises(UserError, match=r"nats apart.*rollout.engine=transformers"):
        load_engine(ROLLOUT, ModelConfig(), policy, policy.tokenizer)


def test_a_cache_too_small_for_one_response_is_refused() -> None:
    policy = tiny_policy("an untied head")
    with pytest.raises(UserError, match=r"rollout.kv_cache_gib=1e-05 is too small.*raise it"):
        VllmEngine(policy, policy.tokenizer, dataclasses.replace(ROLLOUT, kv_cache_gib=1e-5), ModelConfig())


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("kv_cache_dtyp=fp8", "kv_cache_dtyp: vLLM has no such argument; did you mean kv_cache_dtype?"),
        ("max_model_len=64", "max_model_len: rlzoo sets it from its own keys"),
    ],
)
def test_arguments_that_vllm_does_not_know_or_rlzoo_sets_are_refused(word: str, says: str) -> None:
    with pytest.raises(UserError, match=re.escape(f"rollout.engine_args.{says}")):
        check_engine(load_config(["rollout.engine=vllm", f"rollout.engine_args.{word}"]))


def test_further_arguments_reach_vllm() -> None:
    policy = tiny_policy("an untied head")
    config = dataclasses.replace(ROLLOUT, engine_args={"block_size": 32, "max_num_batched_tokens": 4096})
    with closing(VllmEngine(policy, policy.tokenizer, config, ModelConfig())) as engine:
        made = engine.llm.llm_engine.vllm_config
        assert (made.cache_config.block_size, made.scheduler_config.max_num_batched_tokens) == (32, 4096)
