"""DCPO (arXiv:2509.02333): clip bounds .5 + .5 sqrt(1 - 4 low/q) and .5 + .5 sqrt(1 + 4 high/q), at most 10."""

import math
from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.parts_reference import clipped, micro_batch_mean, seq_mean, token_mean


def dynamic_clip(
    low: float = 0.16, high: float = 0.2, most: float = 10.0, cap: float = 10.0
) -> Callable[..., tuple[Array, ...]]:
    """PPO's clip token by token, with the dual clip at `cap`."""

    def surrogate(case: Case, ratio: Array, slope: Array, advantage: Array) -> tuple[Array, ...]:
        value, by_logp = ratio * advantage, slope * advantage
        for token in zip(*case.mask.nonzero(), strict=True):
            q, a, r = math.exp(case.logp_old[token]), advantage[token], ratio[token]
            lower = 0.5 + 0.5 * math.sqrt(max(1 - 4 * low / q, 0))
            upper = min(0.5 + 0.5 * math.sqrt(1 + 4 * high / q), most)
            if (a > 0 and r > upper) or (a < 0 and r < lower) or (a < 0 and r > cap):
                value[token] = a * (upper if a > 0 else lower if r < lower else cap)
                by_logp[token] = 0.0
        return value, by_logp, abs(by_logp)

    return surrogate


RECIPES = {
    "dcpo": clipped(surrogate=dynamic_clip(), share=seq_mean),
    "dcpo(variant=authors)": clipped(surrogate=dynamic_clip(0.2, 0.28), share=micro_batch_mean),
}

COMPOSITIONS = {
    "dcpo(low=0.02,high=0.01,most=2)+token_mean-dual_clip": clipped(
        surrogate=dynamic_clip(0.02, 0.01, 2.0, np.inf), share=token_mean
    ),
}
