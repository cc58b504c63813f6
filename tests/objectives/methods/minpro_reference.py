"""MinPRO (arXiv:2601.22718): a token's ratio times the smallest ratio before it, clipped, times A; not differentiated.

Log-ratios and their sums are clamped to [-20, 20].
"""

from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.methods.cispo_reference import cispo
from tests.objectives.parts_reference import clip, clipped


def prefix_min_ratio(prefix: str = "strict") -> Callable[[Case], tuple[Array, Array]]:
    """Token by token over those that the loss sees."""

    def ratio(case: Case) -> tuple[Array, Array]:
        change = np.clip(case.current - case.logp_old, -20, 20)
        result, slope = np.ones(change.shape), np.zeros(change.shape)
        for row, mask in enumerate(case.mask):
            seen = [0.0] if prefix == "capped" else []
            for t in mask.nonzero()[0]:
                z = change[row, t]
                total = z + (min([*seen, z]) if prefix == "inclusive" else min(seen, default=0.0))
                seen.append(z)
                result[row, t] = np.exp(np.clip(total, -20, 20))
                free = abs(total) <= 20 and abs(case.current[row, t] - case.logp_old[row, t]) <= 20
                slope[row, t] = result[row, t] * free
        return result, slope

    return ratio


MINPRO = {"stops_gradients": True, "ratio": prefix_min_ratio()}

RECIPES = {"minpro(low=1,high=4)": clipped(**MINPRO, surrogate=cispo())}

COMPOSITIONS = {
    "minpro(low=0.2,high=1,prefix=capped)": clipped(
        stops_gradients=True, ratio=prefix_min_ratio("capped"), surrogate=cispo(0.2, 1.0)
    ),
    "minpro(low=1,high=9,prefix=inclusive)": clipped(
        stops_gradients=True, ratio=prefix_min_ratio("inclusive"), surrogate=cispo(1.0, 9.0)
    ),
    "minpro+clip": clipped(**MINPRO, surrogate=clip()),
}
