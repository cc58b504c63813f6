"""Positive-advantage reweighting (arXiv:2511.05993): lambda A where A > 0, lambda lower after a step of low entropy."""

from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.parts_reference import clip, clipped


def positive(target: float | None, start: float = 1.0, step: float = 0.05) -> Callable[[Case, Array], Array]:
    """Lambda of the first step."""

    def weight(case: Case, advantage: Array) -> Array:
        weight = start
        if target is not None and case.mask.any():
            entropy = case.entropy_old[case.mask].sum() / case.mask.sum()
            weight = min(1.0, max(0.0, start + step * np.sign(entropy - target)))
        return np.where(advantage > 0, weight, 1.0)

    return weight


RECIPES = {"par(target_entropy=0.3)": clipped(surrogate=clip(), weights=[positive(0.3)])}

COMPOSITIONS = {
    "par(target_entropy=none,start=0.5)": clipped(surrogate=clip(), weights=[positive(None, 0.5)]),
    "par(target_entropy=0.5,start=0.02)": clipped(surrogate=clip(), weights=[positive(0.5, 0.02)]),
}
