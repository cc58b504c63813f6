"""Pass@k training (arXiv:2508.10751): z-scored pass@k of every set of k responses, averaged over a response's sets.

The sets are gone through one by one. Clip at 0.2.
"""

import math
from collections.abc import Callable
from functools import cache
from itertools import combinations

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.parts_reference import clip, clipped
from tests.objectives.reference import groups


@cache
def of_responses(right: tuple[bool, ...], k: int) -> list[tuple[float, float]]:
    """The advantage of each response, and its size."""
    sets = list(combinations(range(len(right)), min(k, len(right))))
    passed = [any(right[i] for i in chosen) for chosen in sets]
    rho = sum(passed) / len(sets)
    deviation = math.sqrt(rho * (1 - rho)) + 1e-6
    own = [[p for p, chosen in zip(passed, sets, strict=True) if i in chosen] for i in range(len(right))]
    if len(set(passed)) == 1:
        return [(0.0, 0.0)] * len(right)
    return [((sum(p) / len(p) - rho) / deviation, (sum(p) / len(p) + rho) / deviation) for p in own]


def pass_at_k(k: int = 4) -> Callable[[Case, Array], tuple[Array, Array]]:
    """The mean over the sets that a response is in."""

    def advantage(case: Case, reward: Array) -> tuple[Array, Array]:
        result, size = np.zeros(len(reward)), np.zeros(len(reward))
        for rows in groups(case):
            found = of_responses(tuple(bool(value == 1) for value in case.correct[rows]), k)
            result[rows], size[rows] = np.array(found).T
        return result, size

    return advantage


RECIPES = {"passk": clipped(advantage=pass_at_k(), surrogate=clip())}

COMPOSITIONS = {f"passk(k={k})": clipped(advantage=pass_at_k(k), surrogate=clip()) for k in (1, 2, 3)}
