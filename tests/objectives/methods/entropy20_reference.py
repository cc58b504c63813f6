"""20-Entropy (arXiv:2506.01939, eq. 6): DAPO on the fifth of all tokens with the highest entropy.

The authors' code: threshold and mean within each micro-batch, dual clip at 10. v1: the denominator counts all tokens.
"""

from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case, Flags
from tests.objectives.methods.dapo_reference import CODE, IDEAS
from tests.objectives.methods.grpo_reference import grpo
from tests.objectives.parts_reference import clipped
from tests.objectives.reference import pools


def top_entropy(
    fraction: float = 0.2, scope: str = "batch", source: str = "current", leaves_denominator: bool = True
) -> Callable[[Case, Array], tuple[Flags, bool]]:
    """H >= tau, which keeps the top ceil(fraction n) of the tokens, ties included."""

    def mask(case: Case, advantage: Array) -> tuple[Flags, bool]:
        entropy = case.entropy_old if source == "old" else case.current_entropy
        kept = np.zeros(case.mask.shape, dtype=bool)
        for pool in pools(case, case.mask, scope):
            count = max(1, int(pool.sum() * fraction + 0.9999))
            kept |= pool & (entropy >= sorted(entropy[pool], reverse=True)[count - 1])
        return kept, leaves_denominator

    return mask


RECIPES = {
    "entropy20": clipped(**IDEAS, masks=[top_entropy()]),
    "entropy20(variant=authors)": clipped(**IDEAS, **CODE, masks=[top_entropy(scope="micro")]),
    "entropy20(variant=v1)": clipped(**IDEAS, masks=[top_entropy(leaves_denominator=False)]),
}

COMPOSITIONS = {
    "grpo+entropy20": grpo(masks=[top_entropy()]),
    "entropy20(source=old,fraction=0.5)": clipped(**IDEAS, masks=[top_entropy(0.5, source="old")]),
}
