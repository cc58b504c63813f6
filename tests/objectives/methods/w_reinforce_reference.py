"""W-REINFORCE (arXiv:2506.01347): A = 0.1 of right answers, -1 of wrong ones, no baseline; clip 0.2, token mean.

PSR: right answers alone, A = 1. NSR: wrong ones alone. The authors' code: the mean within each micro-batch,
and 0.001 times the entropy.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.objectives.batches import Array, Case, Flags
from tests.objectives.parts_reference import clip, clipped, entropy_bonus, micro_batch_mean


def signed_reward(right: float = 0.1, wrong: float = -1.0) -> Callable[[Case, Array], tuple[Array, Array]]:
    """One of two numbers, whatever the rewards."""

    def advantage(case: Case, reward: Array) -> tuple[Array, Array]:
        values = np.array([right if correct == 1 else wrong for correct in case.correct.tolist()])
        return values, abs(values)

    return advantage


def right_ones(case: Case) -> Flags:
    """Answers that are right in full."""
    return case.correct == 1


def wrong_ones(case: Case) -> Flags:
    """All others."""
    return case.correct < 1


USUAL: dict[str, Any] = {"surrogate": clip()}
AUTHORS = USUAL | {"share": micro_batch_mean, "penalties": [entropy_bonus(0.001)]}

RECIPES = {
    "w_reinforce": clipped(**USUAL, advantage=signed_reward()),
    "w_reinforce(variant=psr)": clipped(**USUAL, advantage=signed_reward(1.0), selects=[right_ones]),
    "w_reinforce(variant=nsr)": clipped(**USUAL, advantage=signed_reward(), selects=[wrong_ones]),
    "w_reinforce(variant=authors)": clipped(**AUTHORS, advantage=signed_reward()),
    "w_reinforce(variant=psr_authors)": clipped(**AUTHORS, advantage=signed_reward(1.0), selects=[right_ones]),
    "w_reinforce(variant=nsr_authors)": clipped(**AUTHORS, advantage=signed_reward(), selects=[wrong_ones]),
}

COMPOSITIONS = {"w_reinforce(right=1,wrong=0)": clipped(**USUAL, advantage=signed_reward(1.0, 0.0))}
