"""DeepSeek-V3.2's KL (arXiv:2512.02556; huggingface/trl@f2cd577, grpo_trainer.py:3068-3076): ratio times k3."""

from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.parts_reference import clipped
from tests.objectives.reference import Reference, Share, Term


def unbiased_kl(beta: float = 0.04) -> Callable[[Case, Array, Share], Term]:
    """R k3 and its derivative by log pi, both factors differentiated."""

    def penalty(case: Case, advantage: Array, share: Share) -> Term:
        x, z = case.logp_ref - case.current, case.current - case.logp_old
        ratio = np.exp(np.clip(z, -20, 20))
        k3, size = np.exp(x) - x - 1, np.exp(x) + abs(x) + 1
        slope = ratio * (np.where(abs(z) <= 20, k3, 0.0) + 1 - np.exp(x))
        each = share(case, case.mask) * beta * case.mask
        return Term(each * ratio * k3, each * slope, np.zeros(x.shape), 2 * each * ratio * size)

    return penalty


RECIPES: dict[str, Reference] = {}

COMPOSITIONS = {"justrl+unbiased_kl": clipped(penalties=[unbiased_kl()])}
