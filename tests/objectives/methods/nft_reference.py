"""NFT (arXiv:2505.18116): right answers by their likelihood, wrong ones by that of the policy without the right ones.

omega [ c log r + (1 - c) log max_v((1 - p r) / (1 - p), eps) ], p the group's mean of c, omega = 1 - p; max_v clips the
value and keeps the gradient of its argument.
"""

from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.parts_reference import clipped, group_center
from tests.objectives.reference import groups, per_token


def implicit_negative(eps: float = 1.0) -> Callable[..., tuple[Array, ...]]:
    """The objective of each token, and its derivative by log pi, with d r / d log pi = `slope`."""

    def surrogate(case: Case, ratio: Array, slope: Array, advantage: Array) -> tuple[Array, ...]:
        value, by_logp, size = np.zeros(ratio.shape), np.zeros(ratio.shape), np.zeros(ratio.shape)
        for rows in groups(case):
            success = case.correct[rows].sum() / rows.sum()
            if success == 1:
                continue
            right = per_token(case, case.correct)[rows]
            negative = np.maximum((1 - success * ratio[rows]) / (1 - success), eps)
            omega = 1 - success
            value[rows] = omega * (right * np.log(ratio[rows]) + (1 - right) * np.log(negative))
            without = success / (1 - success) / negative
            by_logp[rows] = omega * (right / ratio[rows] - (1 - right) * without) * slope[rows]
            size[rows] = omega * (right / ratio[rows] + (1 - right) * without) * slope[rows]
        return value, by_logp, size

    return surrogate


NFT = {"stops_gradients": True, "advantage": group_center}

RECIPES = {"nft": clipped(**NFT, surrogate=implicit_negative())}

COMPOSITIONS = {"nft(eps=0.1)": clipped(**NFT, surrogate=implicit_negative(0.1))}
