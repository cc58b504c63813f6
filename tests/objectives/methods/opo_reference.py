"""OPO (arXiv:2505.23585): A log pi, A = R - sum |y| R / sum |y| over the group, summed over each response.

verl: that advantage in PPO's loss, clipped at 0.2, capped at 3; mean over tokens.
"""

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.methods.gpg_reference import reinforce
from tests.objectives.parts_reference import clip, clipped, seq_sum
from tests.objectives.reference import groups


def optimal_baseline(case: Case, reward: Array) -> tuple[Array, Array]:
    """R - b over all rows of the group; exactly 0 where the rewards are equal."""
    result, size = np.zeros(len(reward)), np.zeros(len(reward))
    length = case.mask.sum(1)
    for rows in groups(case):
        peers, weight = reward[rows], length[rows] / max(1, length[rows].sum())
        if not (peers == peers[0]).all():
            result[rows] = peers - (weight * peers).sum()
            size[rows] = abs(peers) + abs(peers).sum() / len(peers) + (weight * abs(peers)).sum()
    return result, size


RECIPES = {
    "opo": clipped(advantage=optimal_baseline, surrogate=reinforce, share=seq_sum, stops_gradients=True),
    "opo(variant=verl)": clipped(advantage=optimal_baseline, surrogate=clip(cap=3.0)),
}

COMPOSITIONS = {"dapo-dynamic_sampling-soft_overlong+opo": clipped(advantage=optimal_baseline)}
