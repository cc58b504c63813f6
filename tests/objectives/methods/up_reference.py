"""UP (arXiv:2607.06987, eq. 14-15; verl's pull request 7022): A pi/sg[pi] where A > 0, PPO's clip elsewhere."""

import math
from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.parts_reference import clip, clipped


def unbounded_positive(low: float = 0.2, cap: float = math.inf) -> Callable[..., tuple[Array, ...]]:
    """The two branches."""

    def surrogate(case: Case, ratio: Array, slope: Array, advantage: Array) -> tuple[Array, ...]:
        value, by_logp, size = clip(low, math.inf, cap)(case, ratio, slope, advantage)
        good = np.broadcast_to(advantage > 0, ratio.shape)
        return tuple(np.where(good, advantage, it) for it in (value, by_logp, size))

    return surrogate


RECIPES = {
    "up": clipped(surrogate=unbounded_positive(), stops_gradients=True),
    "up(variant=verl)": clipped(surrogate=unbounded_positive(cap=3.0), stops_gradients=True),
}

COMPOSITIONS = {"up(low=0.1)+dual_clip(cap=1.5)": clipped(surrogate=unbounded_positive(0.1, 1.5), stops_gradients=True)}
