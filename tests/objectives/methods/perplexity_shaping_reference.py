"""Perplexity shaping (arXiv:2508.02260): A clip(1 - 0.01 z, 0.8, 1.2), z of the log-perplexity in its group, on DAPO.

z is by the mean and the deviation (ddof 0) of what is no further than 1.5 quartile distances beyond the quartiles.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.parts_reference import (
    clipped,
    dynamic_sampling,
    micro_batch_mean,
    quantile,
    soft_overlong,
)
from tests.objectives.reference import groups


def perplexity(alpha: float = 0.01, width: float = 0.2) -> Callable[[Case, Array], Array]:
    """The weight of each response."""

    def weight(case: Case, advantage: Array) -> Array:
        score = np.zeros(len(case.group))
        there = case.mask.any(1)
        for rows in groups(case):
            rows = rows & there
            if not rows.any():
                continue
            surprise = np.array([-case.logp_old[row][case.mask[row]].mean() for row in rows.nonzero()[0]])
            low, high = quantile(surprise, "0.25"), quantile(surprise, "0.75")
            usual = surprise[(surprise >= low - 1.5 * (high - low)) & (surprise <= high + 1.5 * (high - low))]
            deviation = usual.std()
            score[rows] = (surprise - usual.mean()) / (deviation if deviation > 1e-6 else 1.0)
        return np.clip(1 - alpha * score, 1 - width, 1 + width)[:, None]

    return weight


DAPO: dict[str, Any] = {"rewards": [soft_overlong()], "selects": [dynamic_sampling]}

RECIPES = {
    "perplexity_shaping": clipped(**DAPO, weights=[perplexity()]),
    "perplexity_shaping(variant=authors)": clipped(**DAPO, weights=[perplexity()], share=micro_batch_mean),
}

COMPOSITIONS = {
    "perplexity_shaping(alpha=0.3,width=0.1)": clipped(**DAPO, weights=[perplexity(0.3, 0.1)]),
    "justrl+perplexity_shaping(alpha=-0.1)": clipped(weights=[perplexity(-0.1)]),
}
