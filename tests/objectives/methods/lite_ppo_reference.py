"""Lite PPO (arXiv:2508.08221): (R - mean_group) / (std of all rewards + 1e-4), ddof 1; clip 0.2, mean over tokens."""

import math

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.parts_reference import clip, clipped, dynamic_sampling, group_center


def center_batch_std(case: Case, reward: Array) -> tuple[Array, Array]:
    """R - mean, over the deviation of the rewards of all groups that are there."""
    centred, size = group_center(case, reward)
    there = reward[np.isin(case.group, case.group[case.mask.any(1)])]
    deviation = math.sqrt(((there - there.sum() / max(1, len(there))) ** 2).sum() / max(1, len(there) - 1)) + 1e-4
    return centred / deviation, size / deviation


RECIPES = {"lite_ppo": clipped(advantage=center_batch_std, surrogate=clip())}

COMPOSITIONS = {
    "lite_ppo+dynamic_sampling": clipped(advantage=center_batch_std, surrogate=clip(), selects=[dynamic_sampling])
}
