"""VESPO (arXiv:2602.10693): W^k exp(l (1 - W)) A, W the product of a response's ratios; not differentiated.

(k, l) is (2, 3) where A >= 0 and (3, 2) where A < 0. W is within e^-20 and e^20.
"""

from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.methods.gspo_reference import sequence_ratio
from tests.objectives.parts_reference import clipped

Pair = tuple[float, float]


def gamma_gate(good: Pair = (2.0, 3.0), bad: Pair = (3.0, 2.0)) -> Callable[..., tuple[Array, ...]]:
    """The weight times A; its exponent's terms magnify the ratio's rounding; float32 ends near 1e-38."""

    def surrogate(case: Case, ratio: Array, slope: Array, advantage: Array) -> tuple[Array, ...]:
        k, rate = (np.where(advantage < 0, second, first) for first, second in zip(good, bad, strict=True))
        value = ratio**k * np.exp(rate * (1 - ratio)) * advantage
        size = abs(value) * (1 + k * abs(np.log(ratio)) + rate * ratio)
        return value, value, size + 1e-30 * abs(advantage)

    return surrogate


VESPO = {"stops_gradients": True, "ratio": sequence_ratio(mean=False)}

RECIPES = {"vespo": clipped(**VESPO, surrogate=gamma_gate())}

COMPOSITIONS = {
    "vespo(norm=mean,k_good=1,l_good=1,k_bad=1,l_bad=1)": clipped(
        stops_gradients=True, ratio=sequence_ratio(), surrogate=gamma_gate((1.0, 1.0), (1.0, 1.0))
    ),
}
