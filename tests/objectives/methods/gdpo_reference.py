"""GDPO (arXiv:2601.05242; huggingface/trl@f2cd577 grpo_trainer.py:2710-2720): the rewards' z-scores, added up.

Verl-project/verl@1dda039 core_algos.py:362-466 for the variant verl: whitened over the tokens.
"""

import math
from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.parts_reference import clip, clipped, dynamic_sampling, dynamic_sampling_by_reward, group_norm


def decoupled(eps: float = 1e-4, tokens: bool = False) -> Callable[[Case, Array], tuple[Array, Array]]:
    """The sum of the z-scores of all rewards, over its deviation in the batch."""

    def advantage(case: Case, reward: Array) -> tuple[Array, Array]:
        parts = [group_norm(case, column, eps) for column in case.rewards.T]
        total, size = sum(value for value, _ in parts), sum(size for _, size in parts)
        if tokens:
            count = case.mask.sum(1)
            mean = (count * total).sum() / max(1, count.sum())
            present = total[count > 0]
            equal = len(present) == 0 or (present == present[0]).all()
            total = np.zeros(len(total)) if equal else total - mean
            size = np.zeros(len(total)) if equal else size + (count * size).sum() / count.sum()
            variance = (count * total**2).sum() / max(1, count.sum() - 1)
            return total / math.sqrt(variance + 1e-8), size / math.sqrt(variance + 1e-8)
        there = np.isin(case.group, case.group[case.mask.any(1)])
        deviation = math.sqrt((total[there] ** 2).sum() / max(1, there.sum() - 1)) + eps
        return total / deviation, np.where(total == 0, 0.0, size / deviation)

    return advantage


RECIPES = {
    "gdpo": clipped(advantage=decoupled(), surrogate=clip()),
    "gdpo(variant=verl)": clipped(advantage=decoupled(1e-6, tokens=True), surrogate=clip(cap=3.0)),
}

COMPOSITIONS = {
    "justrl+gdpo": clipped(advantage=decoupled()),
    "gdpo+dynamic_sampling": clipped(advantage=decoupled(), surrogate=clip(), selects=[dynamic_sampling]),
    "gdpo+dynamic_sampling_by_reward": clipped(
        advantage=decoupled(), surrogate=clip(), selects=[dynamic_sampling_by_reward]
    ),
}
