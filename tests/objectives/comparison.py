"""Objectives evaluated through the real prepare, passes, plan and loss, and compared with their references."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

from objectives import Objective, TokenBatch, parse
from tests.objectives.batches import Case, random_case, token_batch
from tests.objectives.references import REFERENCES, Pass, reference

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
ROUNDING = {torch.float64: 0.0, torch.float32: 1e-7}
"""Of the largest term of a batch: what may be left where terms cancel to exactly 0 in float64."""
TELLING_SEEDS = (0, 1, 2, 3, 4, 6, 9, 10, 14, 21, 22, 37)
"""Seeds of batches that every change is tried on; they caught the 379 mistakes of `mistakes.py` in 7356d72f."""
UNMOVED_SEEDS = (0, 22)
"""The same for batches whose policy has not moved."""


@dataclass(frozen=True)
class Update:
    """One update pass: minus the derivative of the loss by log-prob and by entropy [N, T], and the loss itself."""

    gradient: Tensor
    entropy_gradient: Tensor
    loss: float


def at_current(batch: TokenBatch) -> TokenBatch:
    """The batch with current statistics; those of the rollouts if the policy has not moved."""
    return batch if batch.logp is not None else batch.with_fields(logp=batch.logp_old, entropy=batch.entropy_old)


def evaluate(
    objective: Objective,
    batch: TokenBatch,
    cut: Sequence[Tensor] | None = None,
    trim: bool = False,
    state: Mapping[str, Mapping[str, float]] | None = None,
) -> list[Update]:
    """Every pass over one mini-batch, its rows cut into micro-batches, each trimmed to its longest response.

    As in training, the current statistics arrive after `prepare`, with whatever they hold beyond the mask.
    """
    batch, updates = at_current(batch), []
    current = {"logp": batch.logp, "entropy": batch.entropy}
    for prepared in objective.passes(objective.prepare(batch.with_fields(logp=None, entropy=None), state)):
        plan = objective.plan(prepared.with_fields(**current))
        gradient, entropy_gradient, loss = torch.zeros_like(batch.logp), torch.zeros_like(batch.logp), 0.0
        for rows in [torch.arange(len(batch.mask))] if cut is None else cut:
            width = last_position(plan.read[rows]) if trim else batch.mask.shape[1]
            logp, entropy = (field[rows][:, :width].clone().requires_grad_() for field in current.values())
            part = objective.loss(plan, rows, logp, entropy)
            by_logp, by_entropy = torch.autograd.grad(part, (logp, entropy), allow_unused=True)
            gradient[rows, :width] -= 0.0 if by_logp is None else by_logp
            entropy_gradient[rows, :width] -= 0.0 if by_entropy is None else by_entropy
            loss += part.item()
        updates.append(Update(gradient, entropy_gradient, loss))
    return updates


def last_position(mask: Tensor) -> int:
    """How many positions the longest of the responses needs."""
    return int(mask.any(0).nonzero().amax()) + 1 if mask.any() else 0


@cache
def case_and_reference(expression: str, seed: int) -> tuple[Case, list[Pass]]:
    """A random batch and what the reference of an expression says about it; calculated once per session."""
    case = random_case(seed)
    return case, reference(REFERENCES[expression], case)


def largest_error(expression: str, seeds: Sequence[int], dtype: torch.dtype) -> float:
    """The largest relative error of `token_gradients` on random batches; infinite where an exact zero is not one."""
    objective = parse(expression)
    worst = 0.0
    for case, expected in (case_and_reference(expression, seed) for seed in seeds):
        gradients = objective.token_gradients(token_batch(case, dtype))
        outside = [it.numpy()[~case.mask & (own.scale == 0)] for it, own in zip(gradients, expected, strict=True)]
        worst = max(worst, math.inf if any(map(np.any, outside)) else error(gradients, expected))
    return worst


@cache
def unmoved(expression: str, seed: int) -> tuple[Case, list[Pass]]:
    """A batch whose policy has not moved, and what the reference says about it."""
    case = random_case(seed, moved=False)
    return case, reference(REFERENCES[expression], case)


def error_of_the_first_update(expression: str, seed: int) -> float:
    """The error where the policy has not moved and the old log-probs are not calculated unless something needs them."""
    objective = parse(expression)
    if "logp_old" in objective.requires(on_policy=True):
        return 0.0
    case, expected = unmoved(expression, seed)
    batch = token_batch(case)
    batch = batch.with_fields(logp=batch.logp_old, entropy=batch.entropy_old, logp_old=None, on_policy=True)
    return error(objective.token_gradients(batch), expected)


def error(gradients: Sequence[Tensor], expected: Sequence[Pass]) -> float:
    """The largest error of a token relative to the magnitude of its terms."""
    if len(gradients) != len(expected):
        return math.inf
    return max(
        relative_error(gradient.double().numpy(), wanted.gradient, wanted.scale, ROUNDING[gradient.dtype])
        for gradient, wanted in zip(gradients, expected, strict=True)
    )


def relative_error(found: np.ndarray, wanted: np.ndarray, scale: np.ndarray, rounding: float = 0.0) -> float:
    """The largest |found - wanted| / scale; infinite if not finite, or beyond rounding where scale is 0."""
    if not np.isfinite(found).all() or (abs(found[scale == 0]) > rounding * scale.max(initial=0.0)).any():
        return math.inf
    least = np.finfo(np.float32).tiny  # what is smaller is 0 in float32
    return float((np.abs(found - wanted)[scale > 0] / scale[scale > 0].clip(min=least)).max(initial=0.0))


def same(first: Sequence[Update], second: Sequence[Update]) -> bool:
    """Whether all gradients are equal bit by bit."""
    return len(first) == len(second) and all(
        torch.equal(a.gradient, b.gradient) and torch.equal(a.entropy_gradient, b.entropy_gradient)
        for a, b in zip(first, second, strict=True)
    )
