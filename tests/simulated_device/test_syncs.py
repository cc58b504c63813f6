"""Updates through the real trainer on the pretended device: gradients of the CPU, and a host that hardly ever waits."""

from pathlib import Path

import pytest
import torch

from objectives import parse
from tests.objectives.zoo_sample import PARTS, RECIPES, fitting
from tests.simulated_device import SimulatedDevice
from tests.simulated_device.updates import Counting, Step, counting
from tests.thinned import thinned

MOST = 2
"""Waits per micro-batch."""


@pytest.fixture(scope="module")
def here(tiny_model: Path) -> tuple[Counting, Step]:
    return counting(tiny_model)


@pytest.fixture(scope="module")
def there(tiny_model: Path, here: object) -> tuple[SimulatedDevice, Counting, Step]:
    with SimulatedDevice() as machine:
        return machine, *counting(tiny_model)


@pytest.fixture(scope="module")
def packed(tiny_model: Path) -> tuple[tuple[Counting, Step], tuple[SimulatedDevice, Counting, Step]]:
    """The same here and there, with rows without masks."""
    with_varlen = counting(tiny_model, "model.attention=varlen")
    with SimulatedDevice() as machine:
        return with_varlen, (machine, *counting(tiny_model, "model.attention=varlen"))


IN_A_RECIPE = {part.name for recipe in RECIPES for part in parse(recipe).parts}
OTHERS = [part for part in PARTS if not {other.name for other in parse(part).parts} <= IN_A_RECIPE]


@pytest.mark.slow
@pytest.mark.parametrize("expression", thinned(fitting(4, [*RECIPES, *OTHERS]), 5))
def test_gradients_are_those_of_the_cpu_and_a_micro_batch_waits_twice_at_most(
    expression: str, here: tuple[Counting, Step], there: tuple[SimulatedDevice, Counting, Step]
) -> None:
    compare(expression, here, there)


@pytest.mark.slow
@pytest.mark.parametrize("expression", ["stapo+kl", "dapo", "lopti+stare(adaptive=true)"])
def test_so_it_is_with_rows_without_masks(
    expression: str, packed: tuple[tuple[Counting, Step], tuple[SimulatedDevice, Counting, Step]]
) -> None:
    compare(expression, *packed)


@pytest.mark.slow
def test_rows_without_masks_never_wait_for_their_kernel(tiny_model: Path) -> None:
    with SimulatedDevice() as machine:
        trainer, step = counting(tiny_model, "model.attention=varlen", "model.precision=bfloat16")
        trainer.begin(machine)
        trainer.record("stapo+kl", *step)
    assert trainer.waits["train"] <= MOST * trainer.micro_batches["train"] + len(trainer.gradients), machine.report()
    assert trainer.waits["score"] == 0, machine.report()


def compare(expression: str, here: tuple[Counting, Step], there: tuple[SimulatedDevice, Counting, Step]) -> None:
    """Holds the device to the CPU's gradients, and counts its waits."""
    trainer, step = here
    metrics, expected = trainer.record(expression, *step), trainer.gradients
    machine, trainer, step = there
    with machine:
        trainer.begin(machine)
        assert trainer.record(expression, *step) == metrics
        assert all(map(torch.equal, (gradient.cpu() for gradient in trainer.gradients), expected))
    updates = len(expected)
    assert updates == len(trainer.gradients) and trainer.micro_batches["train"] > updates
    # Rows without a gradient are left out of an update, which the host has to know.
    assert trainer.waits["train"] <= MOST * trainer.micro_batches["train"] + updates, machine.report()
    assert trainer.waits["score"] == 0, machine.report()
