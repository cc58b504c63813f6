"""BAPO (arXiv:2510.18927): PPO's clip with bounds found by Algorithm 1, or as the authors' code finds them.

The share of P = sum over A > 0 of min(r, upper) A in P + N, N = sum over A < 0 of max(r, lower) |A|, weighted by
pi_old; in the code P/N, unweighted, of each micro-batch, with the lower bound first. Equal up to 1e-6 is reached.
"""

import math
from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.parts_reference import clip, clipped, micro_batch_mean
from tests.objectives.reference import pools


def measured(gain: Array, ratio: Array, lower: float, upper: float, share: bool) -> float:
    """P/(P + N) or P/N; infinite where there is nothing below the line."""
    positive = (np.maximum(gain, 0) * np.minimum(ratio, upper)).sum()
    negative = (np.maximum(-gain, 0) * np.maximum(ratio, lower)).sum()
    below = positive + negative if share else negative
    return float(positive / below) if below > 0 else math.inf


def algorithm_1(gain: Array, ratio: Array, target: float = 0.4) -> tuple[float, float]:
    """0.6 ... 0.9 and 1.2 ... 3.0, the upper bound first."""
    lower, upper = 60, 120
    while measured(gain, ratio, lower / 100, upper / 100, True) < target * (1 - 1e-6) and lower + 2 <= 90:
        if upper + 5 <= 300:
            upper += 5
        else:
            lower += 2
    return lower / 100, upper / 100


def authors_search(gain: Array, ratio: Array) -> tuple[float, float]:
    """0.6 ... 0.8 and 1.2 ... 2.0, the lower bound first."""
    lower, upper = 60, 120
    while measured(gain, ratio, lower / 100, upper / 100, False) < 1 - 1e-6 and lower < 80:
        lower += 5
    while measured(gain, ratio, lower / 100, upper / 100, False) < 1 - 1e-6 and upper < 200:
        upper += 5
    return lower / 100, upper / 100


def bapo(
    search: Callable[[Array, Array], tuple[float, float]], weighted: bool, scope: str, cap: float = math.inf
) -> Callable[..., tuple[Array, ...]]:
    """PPO's clip in each pool with the bounds found there."""

    def surrogate(case: Case, ratio: Array, slope: Array, advantage: Array) -> tuple[Array, ...]:
        found = [np.zeros(ratio.shape) for _ in range(3)]
        for pool in pools(case, case.mask, scope):
            weight = np.exp(case.logp_old[pool]) if weighted else 1.0
            lower, upper = search(weight * advantage[pool], ratio[pool])
            here = clip(1 - lower, upper - 1, cap)(case, ratio, slope, advantage)
            for whole, part in zip(found, here, strict=True):
                whole[pool] = part[pool]
        return tuple(found)

    return surrogate


RECIPES = {
    "bapo": clipped(surrogate=bapo(algorithm_1, weighted=True, scope="batch")),
    "bapo(variant=authors)": clipped(
        surrogate=bapo(authors_search, weighted=False, scope="micro", cap=3.0), share=micro_batch_mean
    ),
}

COMPOSITIONS = {
    "bapo(weighted=false,target=0.5)": clipped(
        surrogate=bapo(lambda gain, ratio: algorithm_1(gain, ratio, 0.5), weighted=False, scope="batch")
    ),
}
