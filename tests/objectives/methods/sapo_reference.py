"""SAPO (arXiv:2511.20347): (4/tau) sigmoid(tau (r - 1)) A, tau 1 where A > 0 and 1.05 elsewhere; mean per response."""

from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.methods.gspo_reference import sequence_ratio
from tests.objectives.parts_reference import clipped, seq_mean


def soft_gate(positive: float = 1.0, negative: float = 1.05) -> Callable[..., tuple[Array, ...]]:
    """The gate, and its derivative 4 s (1 - s) by r, in which s^2 is taken off s."""

    def surrogate(case: Case, ratio: Array, slope: Array, advantage: Array) -> tuple[Array, ...]:
        tau = np.where(advantage > 0, positive, negative)
        s = 1 / (1 + np.exp(-tau * (ratio - 1)))
        return 4 / tau * s * advantage, 4 * s * (1 - s) * slope * advantage, 4 * s * (1 + s) * abs(slope * advantage)

    return surrogate


SAPO = {"share": seq_mean}

RECIPES = {"sapo": clipped(**SAPO, surrogate=soft_gate())}

COMPOSITIONS = {
    "sapo(tau_pos=0.5,tau_neg=2)": clipped(**SAPO, surrogate=soft_gate(0.5, 2.0)),
    "sapo+sequence_ratio": clipped(**SAPO, surrogate=soft_gate(), ratio=sequence_ratio(), stops_gradients=True),
}
