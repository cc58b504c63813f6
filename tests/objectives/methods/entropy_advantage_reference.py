"""Entropy advantage (arXiv:2506.14758): A + min(0.4 H, |A| / 2), H of the current policy; clip at 1.28."""

from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.methods.advantage_reweighting_reference import reweighting
from tests.objectives.parts_reference import clipped


def shaped(alpha: float = 0.4, kappa: float = 2.0, old: bool = False) -> Callable[[Case, Array], Array]:
    """What A is multiplied by when that is added to it."""

    def weight(case: Case, advantage: Array) -> Array:
        entropy = case.entropy_old if old else case.current_entropy
        added = np.minimum(alpha * entropy, abs(advantage) / kappa)
        return 1 + np.divide(added, advantage, out=np.zeros(added.shape), where=advantage != 0)

    return weight


RECIPES = {"entropy_advantage": clipped(weights=[shaped()])}

COMPOSITIONS = {
    "entropy_advantage(alpha=1,kappa=1.1)": clipped(weights=[shaped(1.0, 1.1)]),
    "entropy_advantage(source=old)+ar": clipped(weights=[shaped(old=True), reweighting(0.3)]),
}
