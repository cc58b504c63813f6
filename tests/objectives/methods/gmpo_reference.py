"""GMPO (arXiv:2507.20673): exp of the mean of log-ratios clipped at 0.4 above where A >= 0, at -0.4 below where A < 0.

The surrogate is that of both: the ratio's clip looks at the advantage's sign.
"""

from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.parts_reference import clipped, seq_mean, token_mean


def geometric(low: float = 0.4, high: float = 0.4) -> Callable[..., tuple[Array, ...]]:
    """S A, and its derivative by log pi: s A where a token is not clipped."""

    def surrogate(case: Case, ratio: Array, slope: Array, advantage: Array) -> tuple[Array, ...]:
        change = np.clip(case.current - case.logp_old, -20, 20)
        live = np.where(advantage >= 0, change <= high, change >= -low)
        bounded = np.where(live, change, np.where(advantage >= 0, high, -low))
        value = np.zeros(change.shape)
        for row, tokens in enumerate(case.mask):
            if tokens.any():
                value[row] = np.exp(bounded[row, tokens].sum() / tokens.sum())
        value = value * advantage
        return value, np.where(live, value, 0.0), abs(value)

    return surrogate


GMPO = {"stops_gradients": True, "share": seq_mean}

RECIPES = {"gmpo": clipped(**GMPO, surrogate=geometric())}

COMPOSITIONS = {
    "gmpo(low=0.1,high=0.2)+token_mean": clipped(stops_gradients=True, share=token_mean, surrogate=geometric(0.1, 0.2)),
}
