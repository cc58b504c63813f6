"""Mix-ups of devices that no CPU notices, planted one at a time: the pretended device finds every one of them."""

import inspect
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from objectives.parts import advantages
from rlzoo.config import ModelConfig, RolloutConfig
from rlzoo.model import token_stats
from rlzoo.model.layout import Layout
from rlzoo.model.policy import Policy
from rlzoo.rollout import transformers_engine
from rlzoo.rollout.base import Sampling
from rlzoo.rollout.transformers_engine import TransformersEngine
from rlzoo.training.metrics import StepMetrics
from rlzoo.training.rows import ForwardPasses
from tests.model.tiny_models import tiny_policy
from tests.simulated_device import MixedDevices, SimulatedDevice
from tests.simulated_device.updates import Counting, Step, counting


def learn(updates: tuple[Counting, Step]) -> None:
    """All updates of a step."""
    trainer, (collected, _, _) = updates
    trainer.gradients = []
    trainer.learn(collected)
    assert trainer.gradients


def generate(updates: tuple[Counting, Step]) -> None:
    """Some responses."""
    policy = tiny_policy("qwen3").to("cuda")
    engine = TransformersEngine(policy, policy.tokenizer, RolloutConfig(), ModelConfig())
    assert len(engine.generate([[1, 2], [3]], 2, Sampling(4, 1.0, 0.9), seed=0).lengths) == 4


class MixUp(NamedTuple):
    """A function, a part of its text, what stands there instead, and when it runs."""

    owner: Any
    function: str
    old: str
    new: str
    when: Callable[[tuple[Counting, Step]], None]


MIX_UPS = [
    MixUp(ForwardPasses, "statistics", ", device=self.accelerator.device)", ")", learn),
    MixUp(StepMetrics, "_when_sampled", "to_device(values[rows], self.device)", "values[rows]", learn),
    MixUp(Policy, "forward", ".on(device)", "", learn),
    MixUp(Policy, "forward", "to_device(tokens[mask], device)", "tokens[mask]", learn),
    MixUp(
        Policy, "forward", "to_device(mask.flatten().nonzero()[:, 0], device)", "mask.flatten().nonzero()[:, 0]", learn
    ),
    MixUp(Layout, "attention", ", device=branch.device)", ")", learn),
    MixUp(token_stats._TokenStats, "forward", "torch.zeros_like(maximum)", "torch.zeros(maximum.shape)", learn),
    MixUp(advantages, "group_centred", "values.new_zeros(groups)", "torch.zeros(groups)", learn),
    MixUp(transformers_engine, "_left_padded", "for ids in prompts], device=device)", "for ids in prompts])", generate),
    MixUp(TransformersEngine, "_decode", "self.stop_tokens.to(device)", "self.stop_tokens", generate),
    MixUp(
        TransformersEngine, "_decode", "to_device(uniform(seed, len(steps), lot)[rows], device)", "lot[rows]", generate
    ),
]


def plant(mixup: MixUp, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts the mixed-up function in place."""
    original = inspect.getattr_static(mixup.owner, mixup.function)
    function = getattr(original, "__func__", original)
    function = inspect.unwrap(function)
    text = textwrap.dedent(inspect.getsource(function))
    assert mixup.old in text, f"{mixup.function} no longer has {mixup.old!r}"
    names: dict[str, Any] = {}
    exec(text.replace(mixup.old, mixup.new), function.__globals__, names)
    monkeypatch.setattr(mixup.owner, mixup.function, names[mixup.function])


@pytest.fixture(scope="module")
def machine_and_updates(tiny_model: Path) -> tuple[SimulatedDevice, tuple[Counting, Step]]:
    with SimulatedDevice() as machine:
        return machine, counting(tiny_model)


@pytest.mark.parametrize("when", [learn, generate])
def test_without_a_mix_up_nothing_is_found(
    when: Callable[[object], None], machine_and_updates: tuple[SimulatedDevice, tuple[Counting, Step]]
) -> None:
    machine, updates = machine_and_updates
    with machine:
        when(updates)


@pytest.mark.parametrize("mixup", MIX_UPS, ids=lambda mixup: f"{mixup.function}: {mixup.old}")
def test_a_planted_mix_up_is_found(
    mixup: MixUp,
    machine_and_updates: tuple[SimulatedDevice, tuple[Counting, Step]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine, updates = machine_and_updates
    plant(mixup, monkeypatch)
    with machine, pytest.raises(MixedDevices):
        mixup.when(updates)
