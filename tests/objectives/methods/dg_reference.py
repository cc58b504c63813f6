"""DG (arXiv:2603.14608; JeanKaddour/tpo@73473b9, src/tpo/algorithms.py:219-234): sigma(A l / eta) A log pi."""

from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.methods.gpg_reference import reinforce
from tests.objectives.parts_reference import clip, clipped, group_center, seq_sum


def delight(eta: float = 1.0) -> Callable[[Case, Array], Array]:
    """The gate of the current surprisal."""

    def weight(case: Case, advantage: Array) -> Array:
        return np.exp(-np.logaddexp(0.0, advantage * case.current / eta))

    return weight


DG = {"advantage": group_center, "surrogate": reinforce, "share": seq_sum, "stops_gradients": True}

RECIPES = {"dg": clipped(**DG, weights=[delight()])}

COMPOSITIONS = {
    "dg(eta=0.5)": clipped(**DG, weights=[delight(0.5)]),
    "justrl+dg": clipped(surrogate=clip(0.2, 0.28), weights=[delight()], stops_gradients=True),
}
