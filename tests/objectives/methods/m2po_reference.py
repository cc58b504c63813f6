"""M2PO (arXiv:2510.01161): r A without the tokens that moved most, as Algorithm 1 takes them out, one value at a time.

The code's clip (Infini-AI-Lab/M2PO@af54a3e, verl/trainer/ppo/core_algos.py:683-810): tau from the sorted squares.
"""

import math
from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case, Flags
from tests.objectives.parts_reference import clip, clipped, micro_batch_mean, unclipped
from tests.objectives.reference import pools


def harmful(case: Case, advantage: Array) -> tuple[Array, Flags]:
    """The log-ratios, and the tokens that have moved in the direction of their advantage."""
    change = np.clip(case.current - case.logp_old, -20, 20)
    return change, case.mask & (((advantage > 0) & (change > 0)) | ((advantage < 0) & (change < 0)))


def second_moment_mask(budget: float = 0.04) -> Callable[[Case, Array], tuple[Flags, bool]]:
    """The largest squares leave until the mean of the others is within the budget."""

    def mask(case: Case, advantage: Array) -> tuple[Flags, bool]:
        change, there = harmful(case, advantage)
        while there.any() and (change[there] ** 2).mean() > budget * (1 + 1e-6):
            there = there & (change**2 < (change[there] ** 2).max())
        return case.mask & (there | ~harmful(case, advantage)[1]), False

    return mask


def width(squares: list[float], budget: float) -> float:
    """Tau of the ascending squares of a micro-batch."""
    total = budget * len(squares)
    if sum(squares) <= total * (1 + 1e-6):
        return math.inf
    for k, square in enumerate(squares):
        if sum(squares[: k + 1]) + square * (len(squares) - k - 1) > total * (1 + 1e-6):
            return _below(squares[:k]) if k else 0.0
    raise AssertionError("the sum exceeds the budget")


def _below(squares: list[float]) -> float:
    """The code clips at the last root itself, where rounding decides; here a little below it."""
    last = math.sqrt(squares[-1])
    others = [math.sqrt(square) for square in squares if square < squares[-1] * (1 - 1e-5)]
    return max(0.999 * last, (last + others[-1]) / 2 if others else 0.0)


def second_moment_clip(
    budget: float, low: float = 0.0, high: float = 0.0, scope: str = "batch"
) -> Callable[..., tuple[Array, ...]]:
    """PPO's clip with these bounds."""

    def surrogate(case: Case, ratio: Array, slope: Array, advantage: Array) -> tuple[Array, ...]:
        change, there = harmful(case, advantage)
        below, above = np.ones(ratio.shape), np.full(ratio.shape, math.inf)
        for pool in pools(case, case.mask, scope):
            tau = width(sorted((change[pool & there] ** 2).tolist()), budget)
            below[pool], above[pool] = max(1 - math.exp(-tau), low), max(math.exp(tau) - 1, high)
        return clip(below, above)(case, ratio, slope, advantage)

    return surrogate


RECIPES = {
    "m2po": clipped(stops_gradients=True, surrogate=unclipped, masks=[second_moment_mask()]),
    "m2po(variant=authors)": clipped(
        stops_gradients=True, surrogate=second_moment_clip(0.04, scope="micro"), share=micro_batch_mean
    ),
}

COMPOSITIONS = {
    "m2po(budget=2)": clipped(stops_gradients=True, surrogate=unclipped, masks=[second_moment_mask(2.0)]),
    "dapo-soft_overlong-dynamic_sampling+second_moment_clip(budget=2,low=0.01,high=0.01)": clipped(
        stops_gradients=True, surrogate=second_moment_clip(2.0, 0.01, 0.01)
    ),
}
