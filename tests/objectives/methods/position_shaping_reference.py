"""Position shaping (arXiv:2508.02260): A + sign(A) min(0.1 sigmoid(15 (s - 1/2)), |A| / 2), s the place, on DAPO."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.parts_reference import clipped, dynamic_sampling, micro_batch_mean, soft_overlong


def late(gamma: float = 0.1, slope: float = 15.0) -> Callable[[Case, Array], Array]:
    """What an advantage is multiplied by: 1 + min(bonus / |A|, 1/2)."""

    def weight(case: Case, advantage: Array) -> Array:
        factor = np.ones(case.mask.shape)
        for row, tokens in enumerate(case.mask):
            places = tokens.nonzero()[0]
            for before, t in enumerate(places):
                bonus = gamma / (1 + np.exp(-slope * (before / len(places) - 0.5)))
                size = abs(advantage[row, t])
                factor[row, t] = 1 + min(bonus / size, 0.5) if size else 1.0
        return factor

    return weight


DAPO: dict[str, Any] = {"rewards": [soft_overlong()], "selects": [dynamic_sampling]}

RECIPES = {
    "position_shaping": clipped(**DAPO, weights=[late()]),
    "position_shaping(variant=authors)": clipped(**DAPO, weights=[late()], share=micro_batch_mean),
}

COMPOSITIONS = {
    "position_shaping(gamma=2,slope=3)": clipped(**DAPO, weights=[late(2.0, 3.0)]),
    "justrl+position_shaping": clipped(weights=[late()]),
}
