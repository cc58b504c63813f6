"""`train.deterministic` on the pretended device, which refuses what torch documents as without such an algorithm."""

from pathlib import Path

import pytest
import torch

from rlzoo.config import load_config
from rlzoo.errors import UserError
from rlzoo.model.accelerator import deterministic
from rlzoo.report.terminal import Terminal
from rlzoo.training.run import train
from tests.objectives.batches import random_case, token_batch
from tests.simulated_device import SimulatedDevice
from tests.simulated_device.machine import DEVICE
from tests.simulated_device.test_zoo import on, step
from tests.simulated_device.updates import counting

EXPRESSIONS = ["grpo", "stapo", "stare(adaptive=true)"]
ADDS_ALONG = ["m2po", "m2po(variant=authors)", "otb", "reinforce_pp+kl_reward(to_go=true)"]
"""Those that add up along tokens, for which CUDA has no deterministic algorithm."""


@pytest.mark.parametrize("expression", [*EXPRESSIONS, *ADDS_ALONG])
def test_objectives_have_deterministic_algorithms_on_the_device_and_they_give_the_cpus_step(
    expression: str, device: SimulatedDevice
) -> None:
    batch = token_batch(random_case(0, extreme=False, moved=True), torch.float32)
    with deterministic(True):
        found = step(expression, on(DEVICE, batch))
    assert all(torch.equal(there.cpu(), here) for there, here in zip(found, step(expression, batch), strict=True))


@pytest.mark.slow
def test_a_whole_update_runs_by_deterministic_algorithms(tiny_model: Path) -> None:
    trainer, given = counting(tiny_model)
    trainer.record("stapo+kl", *given)
    expected = trainer.gradients
    with SimulatedDevice(), deterministic(True):
        trainer, given = counting(tiny_model)
        trainer.record("stapo+kl", *given)
        assert all(map(torch.equal, (gradient.cpu() for gradient in trainer.gradients), expected))


def test_on_the_cpu_where_it_has_no_effect_it_is_refused_before_a_model_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlzoo.training.checkpoint.load_policy", None)
    config = load_config(["train.deterministic=true", f"output={tmp_path / 'run'}"])
    with pytest.raises(UserError, match=r"train.deterministic=true has no effect on cpu: .*leave it out"):
        train(config, Terminal(quiet=True))
    assert not (tmp_path / "run").exists()


def test_what_has_no_deterministic_algorithm_is_one_line(device: SimulatedDevice) -> None:
    message = r"train.deterministic=true: aten.cumsum has no deterministic algorithm"
    with pytest.raises(UserError, match=message), deterministic(True):
        torch.ones(3).to(DEVICE).cumsum(0)
    assert not torch.are_deterministic_algorithms_enabled()
