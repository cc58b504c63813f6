"""STARE (arXiv:2606.19236): W on the most surprising P of A > 0, M on those of A < 0, while H_old < target.

The authors' code: surprisal of the current policy within each micro-batch, dual clip at 10, the mean there.
"""

from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.methods.dapo_reference import CODE
from tests.objectives.parts_reference import clipped, dynamic_sampling
from tests.objectives.reference import Reference, pools


def surprisal_weights(
    amplify: float = 1.1,
    attenuate: float = 1.0,
    fraction: float = 0.1,
    target: float | None = 0.3,
    scope: str = "batch",
    source: str = "old",
) -> Callable[[Case, Array], Array]:
    """W and M on the ceil(P n) most surprising of the n tokens of each sign, ties included."""

    def weight(case: Case, advantage: Array) -> Array:
        result = np.ones(advantage.shape)
        entropy = case.entropy_old[case.mask]
        if target is not None and len(entropy) and not entropy.sum() / len(entropy) < target:
            return result
        surprisal = -(case.logp_old if source == "old" else case.current)
        for sign, factor in ((1, amplify), (-1, attenuate)):
            for pool in pools(case, case.mask & (sign * advantage > 0), scope):
                count = min(int(pool.sum()), max(1, int(pool.sum() * fraction + 0.999999))) if fraction else 0
                if count:
                    boundary = sorted(surprisal[pool], reverse=True)[count - 1]
                    result[pool & (surprisal >= boundary)] = factor
        return result

    return weight


def stare(**settings: object) -> Reference:
    """STARE with other weights."""
    return clipped(selects=[dynamic_sampling], weights=[surprisal_weights(**settings)])  # type: ignore[arg-type]


RECIPES = {
    "stare": stare(),
    "stare(variant=c2)": stare(attenuate=0.9),
    "stare(variant=authors)": clipped(
        **CODE, selects=[dynamic_sampling], weights=[surprisal_weights(scope="micro", source="current")]
    ),
}

COMPOSITIONS = {
    "stare(target_entropy=none,fraction=0.25,amplify=2,attenuate=0.5)": stare(
        amplify=2.0, attenuate=0.5, fraction=0.25, target=None
    ),
    "stare(source=current,target_entropy=0.5)": stare(target=0.5, source="current"),
    "stare(target_entropy=0.25)": stare(target=0.25),
    "stare(scope=microbatch,fraction=1)": stare(fraction=1.0, scope="micro"),
}
