"""HAPO (arXiv:2509.16591): advantages over tokens, weights and clip bounds by where a token's entropy lies.

h is log H less its value of nearest rank at 0.8, over its largest value above, over its smallest's size below.
"""

import math
from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.parts_reference import clip, clipped, group_center, group_norm, micro_batch_mean
from tests.objectives.reference import groups, pools


def token_group_norm(guard: float = 5.0) -> Callable[[Case, Array], tuple[Array, Array]]:
    """(R - mean) / (std + 1e-6), ddof 0, over the tokens of the group; group_norm where an |A| is >= guard."""

    def advantage(case: Case, reward: Array) -> tuple[Array, Array]:
        result, size = group_norm(case, reward)
        _, scale = group_center(case, reward)
        for rows in groups(case):
            there = rows & case.mask.any(1)
            values = np.repeat(reward[there], case.mask.sum(1)[there])
            if len(values) == 0:
                continue
            centred = reward - values.sum() / len(values)
            centred[abs(centred) < 1e-9] = 0.0
            deviation = math.sqrt(((values - values.sum() / len(values)) ** 2).sum() / len(values))
            found = np.where(centred == 0, 0.0, centred / (deviation + 1e-6))
            if (abs(found[there]) < guard).all():
                result[rows] = found[rows]
                size[rows] = ((scale + abs(reward)) / (deviation + 1e-6) * (found != 0))[rows]
        return result, size

    return advantage


def height(case: Case, scope: str) -> Array:
    """[N, T] h in each pool."""
    result = np.zeros(case.mask.shape)
    for pool in pools(case, case.mask, scope):
        entropy = np.log(np.maximum(case.current_entropy[pool], 1e-8))
        ordered = sorted(entropy.tolist())
        if scope == "micro":  # the code: starriver030515/HAPO@7671dde, verl/trainer/ppo/core_algos.py:82-125
            h = entropy - ordered[round(0.8 * (len(entropy) - 1))]
            result[pool] = np.where(h > 0, h / (h.max() or 1.0), h / (h.min() or 1.0))
            continue
        h = entropy - ordered[math.ceil(0.8 * len(entropy) - 1e-9) - 1]
        result[pool] = np.where(h > 0, h / (h.max() or 1.0), h / (-h.min() or 1.0))
    return result


def bounds(case: Case, scope: str, high: float, alpha: float = 1.0) -> tuple[Array, Array]:
    """[N, T] widths below and above."""
    h = height(case, scope)
    return 0.2 * (1 - alpha * np.minimum(h, 0)), high * (1 + alpha * np.maximum(h, 0))


def zones(scope: str = "batch", high: float = 0.28, beta: float = 1.0) -> Callable[[Case, Array], Array]:
    """1 + beta h of unsure tokens outside the half widths, and of sure ones inside."""

    def weight(case: Case, advantage: Array) -> Array:
        h, ratio = height(case, scope), np.exp(np.clip(case.current - case.logp_old, -20, 20))
        below, above = bounds(case, scope, high)
        inside = (ratio > 1 - below / 2) & (ratio < 1 + above / 2)
        return np.where(np.where(h > 0, ~inside, inside), 1 + beta * h, 1.0)

    return weight


def heterogeneous_clip(
    scope: str = "batch", high: float = 0.28, alpha: float = 1.0
) -> Callable[..., tuple[Array, ...]]:
    """PPO's clip with bounds token by token, dual clip at 10."""

    def surrogate(case: Case, ratio: Array, slope: Array, advantage: Array) -> tuple[Array, ...]:
        below, above = bounds(case, scope, high, alpha)
        return clip(below, above, 10.0)(case, ratio, slope, advantage)

    return surrogate


RECIPES = {
    "hapo": clipped(
        advantage=token_group_norm(), weights=[zones()], surrogate=heterogeneous_clip(), stops_gradients=True
    ),
    "hapo(variant=authors)": clipped(
        advantage=token_group_norm(),
        weights=[zones("micro", 0.2)],
        surrogate=heterogeneous_clip("micro", 0.2),
        share=micro_batch_mean,
        stops_gradients=True,
    ),
}

COMPOSITIONS = {
    "hapo(guard=1.5,beta=0.5)": clipped(
        advantage=token_group_norm(1.5),
        weights=[zones(beta=0.5)],
        surrogate=heterogeneous_clip(),
        stops_gradients=True,
    ),
    "hapo-zone_reweighting": clipped(advantage=token_group_norm(), surrogate=heterogeneous_clip()),
}
