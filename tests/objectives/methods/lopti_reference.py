"""Lopti (arXiv:2505.12929, Algorithm 1): the tokens with p_old < eta in a pass of their own, then the others."""

from collections.abc import Callable, Sequence

import numpy as np

from tests.objectives.batches import Case, Flags
from tests.objectives.methods.advantage_reweighting_reference import CODE, PAPER, reweighting
from tests.objectives.methods.dapo_reference import IDEAS
from tests.objectives.parts_reference import clipped, entropy_bonus, quantile


def lopti(eta: float = 0.5, portion: str | None = None, high_first: bool = False) -> Callable[[Case], Sequence[Flags]]:
    """p_old < eta, or below a quantile of p_old; then the others."""

    def passes(case: Case) -> Sequence[Flags]:
        probability = np.exp(case.logp_old)
        boundary = eta
        if portion is not None and case.mask.any():
            boundary = quantile(probability[case.mask], portion)
        low = case.mask & (probability < boundary)
        high = case.mask & ~low
        return [high, low] if high_first else [low, high]

    return passes


RECIPES = {
    "lopti": clipped(**PAPER, passes=lopti()),
    "lopti(variant=authors)": clipped(**CODE, passes=lopti(0.4)),
}

COMPOSITIONS = {
    "lopti(order=high_first)": clipped(**PAPER, passes=lopti(high_first=True)),
    "lopti(portion=0.3)": clipped(**PAPER, passes=lopti(portion="0.3")),
    "lopti(eta=1)+entropy_bonus": clipped(
        **{**PAPER, "penalties": [*PAPER["penalties"], entropy_bonus()]}, passes=lopti(1.0)
    ),
    "advantage_reweighting(alpha=1)+lopti": clipped(**PAPER, weights=[reweighting(1.0)], passes=lopti()),
    "dapo+lopti": clipped(**IDEAS, passes=lopti()),
}
