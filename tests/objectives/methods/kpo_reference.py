"""KPO (arXiv:2602.10609): exp of the log-ratios' Kalman filter, clipped to 1 - 3e-4 ... 1 + 4e-4.

Token by token over those that the loss sees; the filter is not differentiated.
"""

import math
from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.parts_reference import clip, clipped, seq_mean


def kalman_ratio(q: float = 1e-6) -> Callable[[Case], tuple[Array, Array]]:
    """X <- x + K (z - x), where P is the filter's variance over the observation's, and K = (P + q)/(P + q + 1)."""

    def ratio(case: Case) -> tuple[Array, Array]:
        result = np.ones(case.mask.shape)
        change = np.clip(case.current - case.logp_old, -20, 20)
        for row, mask in enumerate(case.mask):
            state, variance = 0.0, 0.0
            for t in mask.nonzero()[0]:
                gain = (variance + q) / (variance + q + 1)
                state, variance = state + gain * (change[row, t] - state), (1 - gain) * (variance + q)
                result[row, t] = math.exp(state)
        return result, result

    return ratio


KPO = {"stops_gradients": True, "surrogate": clip(3e-4, 4e-4), "share": seq_mean}

RECIPES = {"kpo": clipped(**KPO, ratio=kalman_ratio())}

COMPOSITIONS = {
    "kpo(q=1)": clipped(**KPO, ratio=kalman_ratio(1.0)),
    "kpo(q=0.01,low=0.2,high=0.2)": clipped(**{**KPO, "surrogate": clip()}, ratio=kalman_ratio(0.01)),
}
