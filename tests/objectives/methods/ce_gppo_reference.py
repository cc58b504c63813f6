"""CE-GPPO (arXiv:2509.20712): beta1 (1 - low) A below where A < 0, beta2 (1 + high) A above where A > 0, else r A.

Where A < 0 and r > cap the objective is cap A, without a gradient.
"""

import math
from collections.abc import Callable

from tests.objectives.batches import Array, Case
from tests.objectives.parts_reference import clipped, dynamic_sampling


def gradient_preserving_clip(
    beta1: float = 0.5, beta2: float = 1.0, high: float = 0.2, cap: float = 10.0
) -> Callable[..., tuple[Array, ...]]:
    """The objective of each token, and its derivative by log pi."""

    def surrogate(case: Case, ratio: Array, slope: Array, advantage: Array) -> tuple[Array, ...]:
        value, by_logp = ratio * advantage, slope * advantage
        for token in zip(*case.mask.nonzero(), strict=True):
            if advantage[token] < 0 and ratio[token] < 0.8:
                value[token] = by_logp[token] = beta1 * 0.8 * advantage[token]
            elif advantage[token] > 0 and ratio[token] > 1 + high:
                value[token] = by_logp[token] = beta2 * (1 + high) * advantage[token]
            elif advantage[token] < 0 and ratio[token] > cap:
                value[token], by_logp[token] = cap * advantage[token], 0.0
        return value, by_logp, abs(by_logp)

    return surrogate


USUAL = {"stops_gradients": True, "selects": [dynamic_sampling]}

RECIPES = {"ce_gppo": clipped(**USUAL, surrogate=gradient_preserving_clip())}

COMPOSITIONS = {
    "ce_gppo(beta1=0.75,beta2=0.5)+clip_higher-dual_clip": clipped(
        **USUAL, surrogate=gradient_preserving_clip(0.75, 0.5, high=0.28, cap=math.inf)
    ),
}
