"""CISPO (arXiv:2506.13585, eq. 4-5): sg[clip(r, 1 - low, 1 + high)] A log pi, mean over all tokens; weights in [0, 5].

The value is that of sg[w] A pi / sg[pi], which has the same gradient.
"""

from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.parts_reference import clipped


def cispo(low: float = 1.0, high: float = 4.0) -> Callable[..., tuple[Array, ...]]:
    """W A, and its derivative by log pi, which is the same."""

    def surrogate(case: Case, ratio: Array, slope: Array, advantage: Array) -> tuple[Array, ...]:
        weighted = np.minimum(np.maximum(ratio, 1 - low), 1 + high) * advantage
        return weighted, weighted, abs(weighted)

    return surrogate


RECIPES = {"cispo": clipped(stops_gradients=True, surrogate=cispo())}

COMPOSITIONS = {"cispo(low=0.2,high=0.2)": clipped(stops_gradients=True, surrogate=cispo(0.2, 0.2))}
