"""ASPO (arXiv:2510.06062): weight min(1/r, 3) where A > 0, none above 1.2; min(r, 3) where A < 0, none below 0.8."""

from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.parts_reference import clipped, kl


def flipped_clip(low: float = 0.2, high: float = 0.2, most: float = 3.0) -> Callable[..., tuple[Array, ...]]:
    """The weight times A, and what of it is a derivative by log pi."""

    def surrogate(case: Case, ratio: Array, slope: Array, advantage: Array) -> tuple[Array, ...]:
        value = np.minimum(np.where(advantage > 0, 1 / ratio, ratio), most) * advantage
        dropped = np.where(advantage > 0, ratio > 1 + high, ratio < 1 - low)
        return value, np.where(dropped, 0.0, value), abs(value)

    return surrogate


ASPO = {"stops_gradients": True, "penalties": [kl(0.001)]}

RECIPES = {"aspo": clipped(**ASPO, surrogate=flipped_clip())}

COMPOSITIONS = {
    "aspo(low=0.4,most=2)+clip_higher-kl": clipped(stops_gradients=True, surrogate=flipped_clip(0.4, 0.28, 2.0)),
}
