"""REAL (arXiv:2602.05630): log(1 + sum e^(-s/tau) of the good) + log(1 + sum e^(s/tau) of the others) of each prompt.

S is a response's mean log-ratio; the loss of a response is its group's, its push the derivative times the group's size.
"""

from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.parts_reference import clipped, group_center, group_norm, seq_mean, token_mean
from tests.objectives.reference import groups


def group_contrast(tau: float = 0.5) -> Callable[..., tuple[Array, ...]]:
    """The objective of each token, and its derivative by log pi."""

    def surrogate(case: Case, ratio: Array, slope: Array, advantage: Array) -> tuple[Array, ...]:
        value, by_logp = np.zeros(ratio.shape), np.zeros(ratio.shape)
        lengths = case.mask.sum(1)
        change = np.clip(np.where(case.mask, case.current - case.logp_old, 0.0), -20, 20)
        s = change.sum(1) / np.maximum(1, lengths) / tau
        for rows in groups(case):
            rows = rows & (lengths > 0)
            good = rows & ((advantage * case.mask).sum(1) > 0)
            others = rows & ~good
            if not (good.any() and others.any()):
                continue
            loss = 0.0
            for kind, sign in ((good, 1.0), (others, -1.0)):
                terms = np.exp(-sign * s[kind])
                loss += np.log(1 + terms.sum())
                by_logp[kind] = (sign * rows.sum() / tau * terms / (1 + terms.sum()))[:, None]
            value[rows] = -loss
        return value, by_logp, abs(by_logp)

    return surrogate


REAL = {"stops_gradients": True, "advantage": group_center, "share": seq_mean}

RECIPES = {"real": clipped(**REAL, surrogate=group_contrast())}

COMPOSITIONS = {
    "real(tau=2)": clipped(**REAL, surrogate=group_contrast(2.0)),
    "real+group_norm+token_mean": clipped(
        stops_gradients=True, advantage=group_norm, share=token_mean, surrogate=group_contrast()
    ),
}
