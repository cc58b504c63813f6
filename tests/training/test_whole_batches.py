"""Whole steps: a batch of truncated responses trains nothing, and micro-batches change nothing."""

import copy
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, PhiConfig, PreTrainedConfig

from rlzoo.experiment.check import check
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.model.accelerator import make_accelerator
from rlzoo.training.run import load_trainer
from tests.conftest import CHARACTERS, character_tokenizer
from tests.model.tiny_models import COMMON, CONFIGS
from tests.training.test_train import small

CUTS = (
    ("train.tokens_per_micro_batch=16384",),
    ("train.tokens_per_micro_batch=40",),
    ("train.tokens_per_micro_batch=90", "model.share_prompts=false"),
)
PARTS = ("rollout.max_response_tokens=12", "train.minibatches_per_step=1", "train.learning_rate=1e-3")


def saved(config: PreTrainedConfig, folder: Path, ends: bool = True) -> Path:
    """Saves a random model with a token for each character of sums; without `ends` it never samples the end token."""
    config, end = copy.deepcopy(config), len(CHARACTERS) + 1
    config.update({"vocab_size": len(CHARACTERS) + 3, "eos_token_id": end})
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config)
    if not ends:
        model.lm_head.bias.data[end] = -1e4
    model.save_pretrained(folder)
    character_tokenizer().save_pretrained(folder)
    return folder


def stepped(folder: Path, *words: str) -> tuple[dict[str, float], list[Tensor], list[Tensor]]:
    """Returns the metrics of one step, and the weights before and after it."""
    config = small(folder, "train.steps=1", *words)
    with load_trainer(check(config), make_accelerator(config.model.precision), RunFolder(folder)) as trainer:
        before = [parameter.detach().clone() for parameter in trainer.policy.parameters()]
        metrics, _ = trainer.step()
        return dict(metrics), before, [parameter.detach().clone() for parameter in trainer.policy.parameters()]


@pytest.mark.slow
def test_a_batch_of_truncated_responses_moves_no_weight_where_these_are_left_out(tmp_path: Path) -> None:
    values = {key: value for key, value in COMMON.items() if key != "head_dim"}
    words = (
        f"model.name={saved(PhiConfig(**values), tmp_path / 'model', ends=False)}",
        "task.grade_truncated=true",
        *PARTS,
    )
    metrics, before, after = stepped(tmp_path / "run", "objective=grpo+token_mean+overlong_filter", *words)
    assert metrics["truncated"] == 1 and all(torch.isfinite(torch.tensor([*metrics.values()], dtype=torch.float64)))
    assert metrics["gradient_norm"] == 0 and all(map(torch.equal, before, after))
    _, before, after = stepped(tmp_path / "other", "objective=grpo+token_mean+kl(beta=0.1)+entropy_bonus", *words)
    assert not all(map(torch.equal, before, after))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["qwen2", "qwen3", "gpt2"])
def test_micro_batches_change_no_step_of_three_architectures(name: str, tmp_path: Path) -> None:
    words = (
        f"model.name={saved(CONFIGS[name], tmp_path / 'model')}",
        "objective=grpo(beta=0.1)+token_mean+entropy_bonus",
    )
    (metrics, before, whole), *others = (
        stepped(tmp_path / str(number), *words, *PARTS, *cut) for number, cut in enumerate(CUTS)
    )
    assert not all(map(torch.equal, before, whole))
    for other, _, after in others:
        assert other["gradient_norm"] == pytest.approx(metrics["gradient_norm"], rel=1e-4)
        assert max(float((a - b).abs().max()) for a, b in zip(whole, after, strict=True)) < 2e-4
        assert other["reward"] == metrics["reward"]
