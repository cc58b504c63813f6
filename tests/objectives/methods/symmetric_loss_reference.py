"""Symmetric loss (arXiv:2405.17618): alpha times PPO's, and beta A (1 - pi) / pi_old where the clip is idle.

What has no gradient, A / pi_old, is left out of both.
"""

from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.parts_reference import clip, clipped


def symmetric(
    alpha: float = 0.5, beta: float = 0.4, low: float = 0.2, high: float = 0.2
) -> Callable[..., tuple[Array, ...]]:
    """The two objectives, and where the second one counts as the authors' flags say."""
    ppo = clip(low, high)

    def surrogate(case: Case, ratio: Array, slope: Array, advantage: Array) -> tuple[Array, ...]:
        value, by_logp, _ = ppo(case, ratio, slope, advantage)
        inside = (1 - low <= ratio) & (ratio <= 1 + high)
        idle = inside | (ratio * advantage <= np.clip(ratio, 1 - low, 1 + high) * advantage)
        by_logp = alpha * by_logp + beta * idle * slope * advantage
        return alpha * value + beta * idle * ratio * advantage, by_logp, abs(by_logp)

    return surrogate


RECIPES = {"symmetric_loss": clipped(surrogate=symmetric())}

COMPOSITIONS = {
    "symmetric_loss(alpha=0.25,beta=1)": clipped(surrogate=symmetric(0.25, 1.0)),
    "symmetric_loss+clip_higher": clipped(surrogate=symmetric(high=0.28)),
}
