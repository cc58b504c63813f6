"""Advantage Reweighting (arXiv:2505.12929, eq. 4): A (alpha p_old + 1 - alpha), on a clip at 1.24 with a small KL.

The authors' code: dual clip at 10, clamped KL, the mean within each micro-batch.
"""

from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.parts_reference import clip, clipped, kl, micro_batch_mean, sampler_correction


def reweighting(alpha: float) -> Callable[[Case, Array], Array]:
    """Alpha p_old + 1 - alpha."""

    def weight(case: Case, advantage: Array) -> Array:
        return alpha * np.exp(case.logp_old) + (1 - alpha)

    return weight


PAPER = {"surrogate": clip(high=0.24), "penalties": [kl(0.001)]}
CODE = {
    "surrogate": clip(high=0.24, cap=10.0),
    "penalties": [kl(0.001, clamp=5.0)],
    "share": micro_batch_mean,
}

RECIPES = {
    "advantage_reweighting": clipped(**PAPER, weights=[reweighting(0.3)]),
    "advantage_reweighting(variant=authors)": clipped(**CODE, weights=[reweighting(0.2)]),
}

COMPOSITIONS = {
    "ar+sampler_correction(cap=1)": clipped(**PAPER, weights=[reweighting(0.3), sampler_correction(1.0)]),
}
