"""Kimi k1.5 (arXiv:2501.12599, eq. 3): A log pi - (tau/2) (sum of log pi/pi_old)^2 of each response.

ROLL (alibaba/ROLL@8eb27cc, roll/pipeline/rlvr/actor_pg_worker.py:408-436): tau/2 (log pi/pi_old)^2 of each token.
"""

from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.methods.dppo_reference import drift
from tests.objectives.methods.gpg_reference import reinforce
from tests.objectives.parts_reference import clipped, group_center, seq_sum
from tests.objectives.reference import Share, Term


def sequence_drift(tau: float = 0.1) -> Callable[[Case, Array, Share], Term]:
    """The square of a response's sum, told as a part for each of its tokens."""

    def penalty(case: Case, advantage: Array, share: Share) -> Term:
        z = np.where(case.mask, case.current - case.logp_old, 0.0)
        whole, each = z.sum(1, keepdims=True), share(case, case.mask) * case.mask
        size = abs(z).sum(1, keepdims=True) + abs(case.current) + abs(case.logp_old)
        return Term(each * tau / 2 * z * whole, each * tau * whole, np.zeros(z.shape), each * tau * size * (1 + abs(z)))

    return penalty


KIMI = {"advantage": group_center, "surrogate": reinforce, "stops_gradients": True}

RECIPES = {
    "kimi": clipped(**KIMI, share=seq_sum, penalties=[sequence_drift()]),
    "kimi(variant=roll)": clipped(**KIMI, penalties=[drift(0.1)]),
}

COMPOSITIONS = {
    "kimi(tau=1)": clipped(**KIMI, share=seq_sum, penalties=[sequence_drift(1.0)]),
    "justrl+sequence_drift": clipped(penalties=[sequence_drift()]),
}
