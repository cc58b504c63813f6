"""Corrections for the engine that samples, and drift from it."""

import math
from functools import partial

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.references.parts import (
    clip,
    clipped,
    constant_length,
    drift,
    group_center,
    group_norm,
    micro_batch_mean,
    mismatch,
    reinforce,
    sampler_correction,
    seq_mean,
)
from tests.objectives.references.stages import Kept, Reference, Sized, Terms, stage

REFERENCES: dict[str, Reference] = {}

# IcePop (arXiv:2510.18855): GRPO's clipped objective times w = pi_old/pi_sampler, 0 outside [0.5, 5].
#
# Beside it: its neighbours, weights of whole responses, and masks of responses far from the engine or the old policy.


@stage
def sampler_mask(case: Case, advantage: Array, *, low=0.999, high=1.002, level="geometric", shrinks=False) -> Kept:
    """Tokens with low <= w <= high."""
    ratio = mismatch(case, level)
    return (ratio >= low) & (ratio <= high), shrinks


@stage
def off_policy_mask(case: Case, advantage: Array, *, delta: float, anchor="logp_old") -> Kept:
    """Not where A < 0 in a response whose log-probs have fallen by more than delta in the mean."""
    keeps = case.mask.copy()
    fall = np.clip(getattr(case, anchor) - case.current, -20, 20)
    for row, tokens in enumerate(case.mask):
        if tokens.any() and fall[row, tokens].sum() / tokens.sum() > delta:
            keeps[row] &= advantage[row] >= 0
    return keeps, False


ICEPOP = {"surrogate": clip(), "share": seq_mean}


REFERENCES |= {
    "icepop": clipped(**ICEPOP, weights=[sampler_correction(5.0, 0.5, drop=True)]),
    "icepop(level=product,cap=3,low=0)": clipped(**ICEPOP, weights=[sampler_correction(3.0, 0.0, "product", True)]),
    "icepop(level=geometric,outside=clamp)": clipped(**ICEPOP, weights=[sampler_correction(5.0, 0.5, "geometric")]),
    "icepop(cap=none,low=0)+sampler_mask(low=0.8,high=1.5)": clipped(
        **ICEPOP, weights=[sampler_correction(1e30)], masks=[sampler_mask(0.8, 1.5)]
    ),
    "icepop-icepop+sampler_mask(level=product,shrinks=true,low=0.1,high=9)": clipped(
        **ICEPOP, masks=[sampler_mask(0.1, 9.0, "product", shrinks=True)]
    ),
    "icepop-icepop+sampler_mask(level=token)": clipped(**ICEPOP, masks=[sampler_mask(level="token")]),
    "icepop-icepop+off_policy_mask(delta=0.1)+token_mean": clipped(surrogate=clip(), masks=[off_policy_mask(0.1)]),
    "icepop+off_policy_mask(delta=0.5,anchor=sampler)": clipped(
        **ICEPOP,
        weights=[sampler_correction(5.0, 0.5, drop=True)],
        masks=[off_policy_mask(0.5, "logp_sampler")],
    ),
}


# DPPO (arXiv:2602.04879): pi/pi_sampler A, without tokens whose probability has moved far in the direction of A.
#
# Moved: |p_sampler - p|, or the KL of (p_sampler, 1 - p_sampler) from (p, 1 - p), with 1e-8 in the logarithms of the
# complements.
# Log-ratios are clamped to [-20, 20], and p_sampler is p over the ratio.


def sampler_ratio(case: Case) -> Sized:
    """Pi / pi_sampler."""
    difference = case.current - case.logp_sampler
    ratio = np.exp(np.clip(difference, -20, 20))
    return ratio, np.where(abs(difference) <= 20, ratio, 0.0)


@stage
def divergence_clip(
    case: Case, ratio: Array, slope: Array, advantage: Array, *, delta=0.15, cap=math.inf, kind="tv", both=False
) -> Terms:
    """min(r, cap) A, or nothing."""
    p = np.exp(case.current)
    mu = p / ratio
    moved = abs(mu - p)
    if kind == "kl":
        moved = mu * np.log(mu / p) + (1 - mu) * (np.log(1 - mu + 1e-8) - np.log(1 - p + 1e-8))
    onward = np.where(advantage > 0, p > mu, p < mu) | both
    value = np.where(onward & (moved > delta), 0.0, np.minimum(ratio, cap) * advantage)
    return value, value, abs(value)


DPPO = {"stops_gradients": True, "advantage": group_center, "ratio": sampler_ratio}


REFERENCES |= {
    "dppo": clipped(**DPPO, surrogate=divergence_clip()),
    "dppo(variant=authors)": clipped(**DPPO, surrogate=divergence_clip(cap=10.0), share=micro_batch_mean),
    "dppo(variant=trl)": clipped(
        **DPPO | {"advantage": partial(group_norm, eps=1e-4)}, surrogate=divergence_clip(cap=20.0)
    ),
    "dppo(variant=prime_rl)": clipped(
        **DPPO, surrogate=divergence_clip(0.2), penalties=[drift(0.001, "square", "sampler")]
    ),
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


# DRO (verl): A log pi - beta/2 (log pi - log pi_old)^2, mean over all tokens; the value of the first term is A.

REFERENCES |= {
    "dro(beta=0.1)": clipped(stops_gradients=True, surrogate=reinforce, penalties=[drift(0.1)]),
}
