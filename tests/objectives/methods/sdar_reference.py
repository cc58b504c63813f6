"""SDAR (arXiv:2605.15155; ZJU-REAL/SDAR@8b85c23 sdar_utils.py:14-52, dp_actor.py:408-457).

GRPO + 0.01 k3 + lambda times the mean of sg[sigmoid(beta gap)] gap, gap = log p_teacher - log p.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.parts_reference import clip, clipped, kl, micro_batch_mean, seq_mean
from tests.objectives.reference import Share, Term


def gated(weight: float = 0.01, beta: float = 5.0) -> Callable[[Case, Array, Share], Term]:
    """The gap of each token through its gate, meant over all of them as the loss is; the gate is a number."""

    def penalty(case: Case, advantage: Array, share: Share) -> Term:
        gap = case.logp_teacher - case.current
        each = share(case, case.mask) * weight * case.mask / (1 + np.exp(-beta * gap))
        rounding = 1 + beta * (abs(case.logp_teacher) + abs(case.current))
        return Term(each * gap, -each, np.zeros(gap.shape), each * rounding * (1 + abs(gap)))

    return penalty


GATED: dict[str, Any] = {"stops_gradients": True}

RECIPES = {
    "sdar": clipped(surrogate=clip(), share=seq_mean, penalties=[gated(), kl(0.01)], **GATED),
    "sdar(variant=authors)": clipped(
        surrogate=clip(cap=3.0), share=micro_batch_mean, penalties=[gated(), kl(0.01, clamp=20.0)], **GATED
    ),
}

COMPOSITIONS = {"justrl+sdar(coefficient=0.5,beta=2)": clipped(penalties=[gated(0.5, 2.0)], **GATED)}
