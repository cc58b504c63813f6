"""GPG (arXiv:2504.02546): A log pi, A = (R - mean) B / (B - M), M rows in groups of equal rewards; mean over tokens.

verl: the share is that of the rewards that are not zero.
The value is that of A pi / sg[pi], which has the same gradient.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.parts_reference import clipped, dynamic_sampling, group_center
from tests.objectives.reference import groups


def reinforce(case: Case, ratio: Array, slope: Array, advantage: Array) -> tuple[Array, ...]:
    """A, and as derivative by log pi the same, whatever the ratio."""
    each = np.broadcast_to(advantage, ratio.shape)
    return each, each, abs(each)


def scaled_center(eps: float = 0.0, rewarded: bool = False) -> Callable[[Case, Array], tuple[Array, Array]]:
    """R - mean, over the share of rows to learn from among those of groups that are there."""

    def advantage(case: Case, reward: Array) -> tuple[Array, Array]:
        there, counted = 0, 0
        for rows in groups(case):
            if case.mask[rows].any():
                peers = reward[rows].tolist()
                there += len(peers)
                counted += sum(value != 0 for value in peers) if rewarded else len(peers) * (len(set(peers)) > 1)
        share = max(1, counted) / max(1, there) + eps
        centred, size = group_center(case, reward)
        return centred / share, size / share

    return advantage


GPG: dict[str, Any] = {"stops_gradients": True, "surrogate": reinforce}

RECIPES = {
    "gpg": clipped(**GPG, advantage=scaled_center()),
    "gpg(variant=authors)": clipped(**GPG, advantage=scaled_center()),
    "gpg(variant=verl)": clipped(**GPG, advantage=scaled_center(rewarded=True)),
}

COMPOSITIONS = {"gpg+dynamic_sampling": clipped(**GPG, advantage=scaled_center(), selects=[dynamic_sampling])}
