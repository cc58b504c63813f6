"""GSPO (arXiv:2507.18071, eq. 5-7, 13-14): the geometric mean of a response's ratios, clipped to 1 - 3e-4 ... 1 + 4e-4.

The gradient is that of the token form, sg[s_i] pi / sg[pi]. Log-ratios are clamped to [-20, 20], their sum too.
"""

from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.methods.advantage_reweighting_reference import reweighting
from tests.objectives.parts_reference import clip, clipped, seq_mean, seq_sum
from tests.objectives.reference import per_token


def sequence_ratio(mean: bool = True) -> Callable[[Case], tuple[Array, Array]]:
    """Exp of the mean, or of the sum, of log pi - log pi_old over the response."""

    def ratio(case: Case) -> tuple[Array, Array]:
        total = (np.clip(case.current - case.logp_old, -20, 20) * case.mask).sum(1)
        tokens = np.maximum(1, case.mask.sum(1)) if mean else 1
        result = per_token(case, np.exp(np.clip(total / tokens, -20, 20)))
        return result, result

    return ratio


GSPO = {"stops_gradients": True, "ratio": sequence_ratio(), "surrogate": clip(3e-4, 4e-4), "share": seq_mean}

RECIPES = {"gspo": clipped(**GSPO)}

COMPOSITIONS = {
    "gspo+seq_sum": clipped(**{**GSPO, "share": seq_sum}),
    "gspo+ar": clipped(**GSPO, weights=[reweighting(0.3)]),
    "gspo(norm=sum,low=0.2,high=0.2)": clipped(**{**GSPO, "ratio": sequence_ratio(mean=False), "surrogate": clip()}),
}
