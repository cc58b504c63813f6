"""FIPO (arXiv:2603.19835): the clipped objective times exp of the discounted log-ratios from the token on, in [1, 1.2].

gamma = 2^(-1/32); ratios above 10 have no say; at most 1 where A < 0 and r > 4; dual clip at 10.
"""

from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.parts_reference import clip, clipped


def future_kl(
    half_life: float = 32.0, low: float = 1.0, high: float = 1.2, cap: float = 10.0, safe: float = 4.0
) -> Callable[[Case, Array], Array]:
    """The sum over s >= t, term by term, over the tokens that the loss sees."""

    def weight(case: Case, advantage: Array) -> Array:
        result = np.ones(case.mask.shape)
        change = np.clip(case.current - case.logp_old, -20, 20)
        for row, mask in enumerate(case.mask):
            z = change[row, mask]
            for at, t in enumerate(mask.nonzero()[0]):
                terms = [
                    0.5 ** ((s - at) / half_life) * z[s] if np.exp(z[s]) <= cap else 0.0 for s in range(at, len(z))
                ]
                factor = np.clip(np.exp(sum(terms)), low, high)
                bad = advantage[row, t] < 0 and np.exp(z[at]) > safe
                result[row, t] = min(factor, 1.0) if bad else factor
        return result

    return weight


FIPO = {"surrogate": clip(cap=10.0), "stops_gradients": True}

RECIPES = {"fipo": clipped(**FIPO, weights=[future_kl()])}

COMPOSITIONS = {
    "fipo(low=0.8,half_life=2,cap=3,safe=1.5)": clipped(**FIPO, weights=[future_kl(2.0, 0.8, cap=3.0, safe=1.5)]),
}
