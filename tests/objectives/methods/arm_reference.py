"""ARM (arXiv:2602.05281): A + alpha (c(q) - c(o)) in groups whose rewards differ, on JustRL.

C(o) is the geometric mean of the probabilities of the ceil(20 %) least probable tokens, c(q) that of the prompt's.
"""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.methods.advantage_reweighting_reference import reweighting
from tests.objectives.parts_reference import clipped, group_center, group_norm
from tests.objectives.reference import groups


def confidence(logp: Array, fraction: str = "0.2") -> float:
    """Of one response, [t] log-probs."""
    count = max(1, math.ceil(Fraction(fraction) * len(logp)))
    return math.exp(math.fsum(sorted(logp.tolist())[:count]) / count)


def shifted(
    alpha: float = 0.5,
    fraction: str = "0.2",
    any_right: bool = False,
    advantage: Callable[[Case, Array], tuple[Array, Array]] = group_norm,
) -> Callable[[Case, Array], tuple[Array, Array]]:
    """The advantages of each response, shifted."""

    def advantages(case: Case, reward: Array) -> tuple[Array, Array]:
        values, size = advantage(case, reward)
        for rows in groups(case):
            there = [row for row in np.flatnonzero(rows) if case.mask[row].any()]
            if not (case.correct[rows] == 1).any() if any_right else not values[there].any():
                continue
            for row in there:
                c_prompt = math.exp(case.logp_prompt[row])
                c_response = confidence(case.logp_old[row, case.mask[row]], fraction)
                values[row] += alpha * (c_prompt - c_response)
                size[row] += alpha * (c_prompt + c_response)
        return values, size

    return advantages


RECIPES = {"arm(alpha=0.5)": clipped(advantage=shifted())}

COMPOSITIONS = {
    "arm(alpha=2,fraction=0.5,groups=any_right)": clipped(advantage=shifted(2.0, "0.5", any_right=True)),
    "arm(alpha=1)+group_center+ar": clipped(advantage=shifted(1.0, advantage=group_center), weights=[reweighting(0.3)]),
}
