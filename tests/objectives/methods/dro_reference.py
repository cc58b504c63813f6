"""DRO (verl): A log pi - beta/2 (log pi - log pi_old)^2, mean over all tokens; the value of the first term is A."""

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.methods.dppo_reference import drift
from tests.objectives.parts_reference import clipped
from tests.objectives.reference import Reference


def reinforce(case: Case, ratio: Array, slope: Array, advantage: Array) -> tuple[Array, ...]:
    """A, whatever the ratio."""
    return advantage, advantage, abs(advantage) * np.ones(ratio.shape)


RECIPES = {"dro(beta=0.1)": clipped(stops_gradients=True, surrogate=reinforce, penalties=[drift(0.1)])}

COMPOSITIONS: dict[str, Reference] = {}
