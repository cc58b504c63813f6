"""M2PO (arXiv:2510.01161): PPO's clip at exp(-tau) and exp(tau), at least 0.3 and 0.5 wide.

tau is the root of mean min(z^2, tau^2) = budget over the harmful tokens, found by bisection.
"""

import math
from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.parts_reference import clip, clipped


def width(squares: Array, budget: float) -> float:
    """Tau; infinite within the budget."""

    def moment(tau: float) -> float:
        return float(np.minimum(squares, tau**2).sum() / len(squares))

    if len(squares) == 0 or moment(math.inf) <= budget * (1 + 1e-6):
        return math.inf
    low, high = 0.0, 20.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if moment(middle) <= budget else (low, middle)
    return low


def second_moment_clip(budget: float, low: float = 0.3, high: float = 0.5) -> Callable[..., tuple[Array, ...]]:
    """PPO's clip with these bounds."""

    def surrogate(case: Case, ratio: Array, slope: Array, advantage: Array) -> tuple[Array, ...]:
        harmful = case.mask & (((advantage > 0) & (ratio > 1)) | ((advantage < 0) & (ratio < 1)))
        change = np.clip(case.current - case.logp_old, -20, 20)
        tau = width(change[harmful] ** 2, budget)
        below, above = max(1 - math.exp(-tau), low), max(math.exp(tau) - 1, high)
        return clip(below, above)(case, ratio, slope, advantage)

    return surrogate


RECIPES = {"m2po(budget=0.04)": clipped(stops_gradients=True, surrogate=second_moment_clip(0.04))}

COMPOSITIONS = {
    "m2po(budget=2,low=0.01,high=0.01)": clipped(stops_gradients=True, surrogate=second_moment_clip(2.0, 0.01, 0.01)),
}
