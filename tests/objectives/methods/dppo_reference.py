"""DPPO (arXiv:2602.04879): pi/pi_sampler A, without tokens whose probability has moved far in the direction of A.

Moved: |p_sampler - p|, or the KL of (p_sampler, 1 - p_sampler) from (p, 1 - p), with 1e-8 in the logarithms of the
complements.
Log-ratios are clamped to [-20, 20], and p_sampler is p over the ratio.
"""

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.parts_reference import clipped, constant_length, group_center, group_norm, micro_batch_mean
from tests.objectives.reference import Share, Term


def sampler_ratio(case: Case) -> tuple[Array, Array]:
    """Pi / pi_sampler."""
    difference = case.current - case.logp_sampler
    ratio = np.exp(np.clip(difference, -20, 20))
    return ratio, np.where(abs(difference) <= 20, ratio, 0.0)


def divergence_clip(
    delta: float = 0.15, cap: float = math.inf, kind: str = "tv", both: bool = False
) -> Callable[..., tuple[Array, ...]]:
    """min(r, cap) A, or nothing."""

    def surrogate(case: Case, ratio: Array, slope: Array, advantage: Array) -> tuple[Array, ...]:
        p = np.exp(case.current)
        mu = p / ratio
        moved = abs(mu - p)
        if kind == "kl":
            moved = mu * np.log(mu / p) + (1 - mu) * (np.log(1 - mu + 1e-8) - np.log(1 - p + 1e-8))
        onward = np.where(advantage > 0, p > mu, p < mu) | both
        value = np.where(onward & (moved > delta), 0.0, np.minimum(ratio, cap) * advantage)
        return value, value, abs(value)

    return surrogate


def drift(beta: float, estimator: str = "k2", to: str = "old") -> Callable[[Case, Array, Share], Term]:
    """Beta z^2, beta z^2/2 or beta |z|, z = log pi - log pi_old or log pi_sampler."""

    def penalty(case: Case, advantage: Array, share: Share) -> Term:
        z = case.current - (case.logp_old if to == "old" else case.logp_sampler)
        value, slope = {"square": (z * z, 2 * z), "k2": (z * z / 2, z), "abs": (abs(z), np.sign(z))}[estimator]
        each = share(case, case.mask) * beta * case.mask
        size = abs(slope) + abs(case.current) * (estimator != "abs")
        return Term(each * value, each * slope, np.zeros(z.shape), each * size)

    return penalty


DPPO = {"stops_gradients": True, "advantage": group_center, "ratio": sampler_ratio}

RECIPES = {
    "dppo": clipped(**DPPO, surrogate=divergence_clip()),
    "dppo(variant=authors)": clipped(**DPPO, surrogate=divergence_clip(cap=10.0), share=micro_batch_mean),
    "dppo(variant=trl)": clipped(
        **DPPO | {"advantage": partial(group_norm, eps=1e-4)}, surrogate=divergence_clip(cap=20.0)
    ),
    "dppo(variant=prime_rl)": clipped(
        **DPPO, surrogate=divergence_clip(0.2), penalties=[drift(0.001, "square", "sampler")]
    ),
}

COMPOSITIONS = {
    "dppo(kind=kl,delta=0.05)": clipped(**DPPO, surrogate=divergence_clip(0.05, kind="kl")),
    "dppo(side=both,delta=0.1)": clipped(**DPPO, surrogate=divergence_clip(0.1, both=True)),
    "dppo(cap=20)+token_ratio+constant_length": clipped(
        stops_gradients=True,
        advantage=group_center,
        surrogate=divergence_clip(cap=20.0),
        share=constant_length(),
    ),
    "dppo+drift(beta=0.1)": clipped(**DPPO, surrogate=divergence_clip(), penalties=[drift(0.1)]),
    "dppo+drift(beta=0.1,estimator=abs)": clipped(**DPPO, surrogate=divergence_clip(), penalties=[drift(0.1, "abs")]),
}
