"""QAE (arXiv:2509.22611): (R - Q) / (std + 1e-6), Q the 0.4-quantile of the group; clip at 1.28, dynamic sampling.

Paper: the smallest reward that 40 % of the group do not exceed. Authors: interpolated linearly.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.parts_reference import clip, clipped, dynamic_sampling, quantile
from tests.objectives.reference import groups


def smallest(values: Array, q: str) -> float:
    """The smallest value x such that a share q of them is at most x."""
    shares = {x: Fraction(int((values <= x).sum()), len(values)) for x in values.tolist()}
    return min(x for x, share in shares.items() if share >= Fraction(q))


def quantile_norm(
    q: str = "0.4", of: Callable[[Array, str], float] = smallest
) -> Callable[[Case, Array], tuple[Array, Array]]:
    """R less the quantile, over the deviation with ddof 1; exactly 0 where the rewards are equal."""

    def advantage(case: Case, reward: Array) -> tuple[Array, Array]:
        result, size = np.zeros(len(reward)), np.zeros(len(reward))
        for rows in groups(case):
            peers = reward[rows]
            if not (peers == peers[0]).all():
                baseline, deviation = of(peers, q), peers.std(ddof=1) + 1e-6
                result[rows], size[rows] = (peers - baseline) / deviation, (abs(peers) + abs(baseline)) / deviation
        return result, size

    return advantage


QAE: dict[str, Any] = {"selects": [dynamic_sampling]}

RECIPES = {
    "qae": clipped(**QAE, advantage=quantile_norm()),
    "qae(variant=linear)": clipped(**QAE, advantage=quantile_norm(of=quantile)),
}

COMPOSITIONS = {
    "qae(q=0.6)": clipped(**QAE, advantage=quantile_norm("0.6")),
    "lite_ppo+quantile_norm(q=0.25,kind=linear)": clipped(advantage=quantile_norm("0.25", quantile), surrogate=clip()),
}
