"""GVPO (arXiv:2504.19599; verl-project/verl-recipe@48ea0a7 gvpo/gvpo_core_algos.py:39-57, over prompts).

1/(2 (k - 1)) sum_i [ (s_i - mean s) - (R_i - mean R) ]^2 of each prompt, s_i = beta sum of its log-ratios.
"""

from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.parts_reference import clipped, group_center, group_norm, seq_sum
from tests.objectives.reference import groups


def group_variance(beta: float = 0.1) -> Callable[..., tuple[Array, ...]]:
    """The objective of each token, its response's over its tokens, and its derivative by log pi."""

    def surrogate(case: Case, ratio: Array, slope: Array, advantage: Array) -> tuple[Array, ...]:
        value, by_logp, size = (np.zeros(ratio.shape) for _ in range(3))
        lengths = case.mask.sum(1)
        s = beta * np.clip(np.where(case.mask, case.current - case.logp_old, 0.0), -20, 20).sum(1)
        worth = (advantage * case.mask).sum(1) / np.maximum(1, lengths)
        for rows in groups(case):
            rows = rows & (lengths > 0)
            k = int(rows.sum())
            if k > 1:
                left = (s[rows] - s[rows].mean() - worth[rows])[:, None]
                value[rows] = -k / (2 * (k - 1)) * left**2 / lengths[rows, None]
                by_logp[rows] = -k / (k - 1) * beta * left
                size[rows] = 2 * beta * (abs(s[rows]) + abs(s[rows]).mean() + abs(worth[rows]))[:, None]
        return value, by_logp, size

    return surrogate


GVPO = {"advantage": group_center, "share": seq_sum}

RECIPES = {"gvpo": clipped(**GVPO, surrogate=group_variance())}

COMPOSITIONS = {
    "gvpo(beta=1)": clipped(**GVPO, surrogate=group_variance(1.0)),
    "gvpo+group_norm": clipped(advantage=group_norm, share=seq_sum, surrogate=group_variance()),
}
