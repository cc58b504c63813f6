"""RLSD (arXiv:2604.03128 Algorithm 1; iie-ycx/RLSD@93e46f7 dp_opsd_actor.py:210-250), in its first step.

A (1 - m + m clip((p_teacher / p)^sign(A), 1 - eps, 1 + eps)), m = 0.5; p is the old policy's, in the code the new.
"""

from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.parts_reference import clip, clipped, seq_mean


def evidence(mix: float = 0.5, width: float = 0.2, current: bool = False) -> Callable[[Case, Array], Array]:
    """What A is multiplied by."""

    def weight(case: Case, advantage: Array) -> Array:
        gain = case.logp_teacher - (case.current if current else case.logp_old)
        likelier = np.exp(np.where(advantage < 0, -gain, gain))
        return np.where(advantage == 0, 1.0, 1 - mix + mix * np.clip(likelier, 1 - width, 1 + width))

    return weight


RECIPES = {
    "rlsd": clipped(weights=[evidence()], surrogate=clip(), share=seq_mean),
    "rlsd(variant=authors)": clipped(
        weights=[evidence(current=True)], surrogate=clip(high=0.28, cap=3.0), stops_gradients=True
    ),
}

COMPOSITIONS = {"justrl+rlsd(mix=0.8,width=0.4,steps=0)": clipped(weights=[evidence(0.8, 0.4)])}
