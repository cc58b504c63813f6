"""Adapters: they alone learn, what is sampled and saved has them merged, and the reference is without them."""

import re
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from rlzoo.config.sections import LoraConfig
from rlzoo.errors import UserError
from rlzoo.experiment.check import check
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.model.accelerator import make_accelerator
from rlzoo.model.lora import adapters, add_adapters, set_adapters
from rlzoo.model.policy import Policy
from rlzoo.training.run import load_trainer
from tests.conftest import error_of
from tests.model.tiny_models import responses, tiny_policy
from tests.simulated_device import SimulatedDevice
from tests.training.test_train import small

LORA = ("model.lora.rank=4", "train.learning_rate=1e-2", "objective=grpo+kl")


def adapted(name: str = "qwen3") -> Policy:
    """A policy whose adapters change it."""
    policy = tiny_policy(name)
    add_adapters(policy.model, LoraConfig(rank=2))
    generator = torch.Generator().manual_seed(0)
    for weight in adapters(policy).values():
        weight.copy_(0.3 * torch.randn(weight.shape, generator=generator))
    return policy


@pytest.mark.parametrize("name", ["qwen3", "llama", "gpt2"])
def test_merged_weights_are_the_same_function_and_the_reference_is_the_model_before(name: str, tmp_path: Path) -> None:
    batch = responses()
    base = tiny_policy(name)(batch, 1.0).logp
    policy = adapted(name)
    found = policy(batch, 1.0).logp
    assert (found - base).abs().max() > 0.1
    torch.testing.assert_close(policy.frozen_copy()(batch, 1.0).logp, base, rtol=0, atol=0)
    merged, sampler = policy.merged(), policy.sampling_copy(torch.float32)
    policy.save(tmp_path)
    saved = AutoModelForCausalLM.from_pretrained(tmp_path)
    for one in (merged.model, sampler.model, saved):
        assert not adapters(one)
        torch.testing.assert_close(Policy(one, policy.tokenizer)(batch, 1.0).logp, found, rtol=1e-4, atol=1e-4)
    for weight in adapters(policy).values():
        weight.zero_()
    sampler.copy_weights(policy)
    torch.testing.assert_close(sampler(batch, 1.0).logp, base, rtol=0, atol=1e-6)


def test_adapters_that_no_training_leaves_are_refused() -> None:
    policy = adapted()
    saved = {name: weight.clone() for name, weight in adapters(policy).items()}
    set_adapters(policy, saved)
    name, weight = next(iter(saved.items()))
    for broken in (weight[:1], weight * torch.nan, weight.long()):
        with pytest.raises(UserError, match=f"{re.escape(name)} has another shape, or holds"):
            set_adapters(policy, {**saved, name: broken})


def test_adapters_alone_learn_and_the_rest_is_shared_with_the_reference(tmp_path: Path) -> None:
    config = small(tmp_path / "run", *LORA)
    with load_trainer(check(config), make_accelerator(config.model.precision), RunFolder(tmp_path / "run")) as trainer:
        policy, reference = trainer.accelerator.unwrap_model(trainer.policy), trainer.reference
        before = {name: weight.clone() for name, weight in policy.named_parameters()}
        trainer.step()
        changed = {name for name, weight in policy.named_parameters() if not torch.equal(weight, before[name])}
    assert changed and changed <= adapters(policy).keys()
    assert sum(weight.numel() for weight in adapters(policy).values()) < 0.1 * sum(w.numel() for w in before.values())
    assert reference is not None and not adapters(reference)
    own = {weight.data_ptr() for weight in policy.parameters()}
    assert all(weight.data_ptr() in own for weight in reference.parameters())


def test_adapters_train_on_the_device(tmp_path: Path) -> None:
    config = small(tmp_path / "run", *LORA, "rollout.prompts_per_step=2")
    with (
        SimulatedDevice(),
        load_trainer(check(config), make_accelerator("float32"), RunFolder(tmp_path / "run")) as trainer,
    ):
        metrics, _ = trainer.step()
    assert metrics["updates_skipped"] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["model.lora.rank=-1"], "model.lora.rank=-1 must be at least 0"),
        (["model.lora.alpha=4"], "model.lora.alpha=4.0 has no effect without model.lora.rank"),
        (["model.lora.targets=q_proj"], "has no effect without model.lora.rank"),
        (["model.lora.rank=2", "model.lora.alpha=0"], "model.lora.alpha=0 must be greater than 0"),
        (["model.lora.rank=2", "train.sharding=fsdp"], "adapters are not sharded; leave train.sharding=fsdp out"),
        (
            ["model.lora.rank=2", "model.lora.targets=nothing"],
            r"model.lora.targets=\['nothing'\]: .*down_proj, gate_proj",
        ),
        (["model.lora.rank=2", "model.lora.targets=lm_head"], "the head cannot have an adapter"),
    ],
)
def test_wrong_use_is_said_in_one_line(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert re.search(message, error_of(capsys, "train", *words, f"output={tmp_path / 'run'}"))
