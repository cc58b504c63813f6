"""Every recipe and every part on the pretended device: plan, loss and gradient are those of the CPU, bit for bit."""

import copy

import pytest
import torch
from torch import Tensor

from objectives import TokenBatch, parse
from tests.objectives.batches import random_case, token_batch
from tests.objectives.zoo_sample import PARTS, RECIPES, SETTINGS, VARIANTS
from tests.simulated_device import OnDevice, SimulatedDevice
from tests.simulated_device.machine import DEVICE
from tests.thinned import thinned

EXPRESSIONS = sorted({*RECIPES, *VARIANTS, *PARTS, *SETTINGS})
SEEDS = range(2)


def on(device: torch.device, batch: TokenBatch) -> TokenBatch:
    return batch.with_fields(**{name: tensor.to(device) for name, tensor in batch.tensors().items()})


def step(expression: str, batch: TokenBatch) -> list[Tensor]:
    """The advantages, and for each pass the coefficients, what every part touched, the loss and its gradient."""
    objective = parse(expression)
    prepared = objective.prepare(batch)
    found = [prepared.require("advantage", "test")]
    for update in objective.passes(prepared):
        plan = objective.plan(update)
        logp, entropy = (tensor.detach().clone().requires_grad_() for tensor in (batch.logp, batch.entropy))
        loss = objective.loss(plan, slice(None), logp, entropy)
        gradients = torch.autograd.grad(loss, [logp, entropy], allow_unused=True)
        touched = objective.touched(plan, slice(None), logp.detach())
        found += [plan.policy_coefficient, *plan.penalty_coefficients.values(), plan.active, loss.detach()]
        found += [*touched.values(), *(gradient for gradient in gradients if gradient is not None)]
    return found


@pytest.mark.parametrize("expression", thinned(EXPRESSIONS, 4))
def test_a_step_on_the_device_is_that_of_the_cpu_bit_for_bit(expression: str, device: SimulatedDevice) -> None:
    for seed in SEEDS:
        batch = token_batch(random_case(seed, extreme=False, moved=True), torch.float32)
        found, expected = step(expression, on(DEVICE, batch)), step(expression, copy.copy(batch))
        assert len(found) == len(expected)
        for there, here in zip(found, expected, strict=True):
            assert isinstance(there, OnDevice) and not isinstance(here, OnDevice)
            assert there.dtype == here.dtype and torch.equal(there.cpu(), here)
