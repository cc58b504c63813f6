"""TOPR (arXiv:2503.14286): A is 1 or -1; weight 1 where A > 0, the response's ratio in [0, 1] where A < 0; detached."""

from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.methods.gspo_reference import sequence_ratio
from tests.objectives.parts_reference import clipped, group_norm, seq_mean


def right_or_wrong(case: Case, reward: Array) -> tuple[Array, Array]:
    """1 where correct in full, else -1."""
    result = np.where(case.correct == 1, 1.0, -1.0)
    return result, abs(result)


def taper(low: float = 0.0, high: float = 1.0) -> Callable[..., tuple[Array, ...]]:
    """The weight times A."""

    def surrogate(case: Case, ratio: Array, slope: Array, advantage: Array) -> tuple[Array, ...]:
        value = np.where(advantage > 0, 1.0, np.clip(ratio, low, high)) * advantage
        return value, value, abs(value)

    return surrogate


TOPR = {"stops_gradients": True, "advantage": right_or_wrong, "share": seq_mean}

RECIPES = {"topr": clipped(**TOPR, ratio=sequence_ratio(mean=False), surrogate=taper())}

COMPOSITIONS = {
    "topr(norm=mean,low=0.5,high=2)": clipped(**TOPR, ratio=sequence_ratio(), surrogate=taper(0.5, 2.0)),
    "topr+group_norm": clipped(
        **{**TOPR, "advantage": group_norm}, ratio=sequence_ratio(mean=False), surrogate=taper()
    ),
}
