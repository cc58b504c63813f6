"""Ratios of whole responses and of prefixes."""

import math

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.references.parts import (
    cispo,
    clip,
    clipped,
    group_center,
    group_norm,
    reweighting,
    seq_mean,
    seq_sum,
    sequence_ratio,
    token_mean,
)
from tests.objectives.references.stages import Reference, Sized, Terms, stage

REFERENCES: dict[str, Reference] = {}

# GSPO (arXiv:2507.18071, eq. 5-7, 13-14): the geometric mean of a response's ratios, clipped to 1 - 3e-4 ... 1 + 4e-4.
#
# The gradient is that of the token form, sg[s_i] pi / sg[pi]. Log-ratios are clamped to [-20, 20], their sum too.

GSPO = {"stops_gradients": True, "ratio": sequence_ratio(), "surrogate": clip(3e-4, 4e-4), "share": seq_mean}


REFERENCES |= {
    "gspo": clipped(**GSPO),
    "gspo+seq_sum": clipped(**{**GSPO, "share": seq_sum}),
    "gspo+ar": clipped(**GSPO, weights=[reweighting(0.3)]),
    "gspo(norm=sum,low=0.2,high=0.2)": clipped(**{**GSPO, "ratio": sequence_ratio(mean=False), "surrogate": clip()}),
}


# LUSPO (arXiv:2602.05261): a response's geometric mean of ratios, clipped to 1 - 2e-3 ... 1 + 2.5e-3, times |y|.

LUSPO = {"stops_gradients": True, "ratio": sequence_ratio(), "surrogate": clip(2e-3, 2.5e-3), "share": seq_sum}


REFERENCES |= {
    "luspo": clipped(**LUSPO),
    "luspo+group_center+ar": clipped(**LUSPO, advantage=group_center, weights=[reweighting(0.3)]),
}


# GMPO (arXiv:2507.20673): exp of the mean of log-ratios clipped at 0.4 above where A >= 0, at -0.4 below where A < 0.
#
# The surrogate is that of both: the ratio's clip looks at the advantage's sign.


@stage
def geometric(case: Case, ratio: Array, slope: Array, advantage: Array, *, low=0.4, high=0.4) -> Terms:
    """S A, and its derivative by log pi: s A where a token is not clipped."""
    change = np.clip(case.current - case.logp_old, -20, 20)
    live = np.where(advantage >= 0, change <= high, change >= -low)
    bounded = np.where(live, change, np.where(advantage >= 0, high, -low))
    value = np.zeros(change.shape)
    for row, tokens in enumerate(case.mask):
        if tokens.any():
            value[row] = np.exp(bounded[row, tokens].sum() / tokens.sum())
    value = value * advantage
    return value, np.where(live, value, 0.0), abs(value)


GMPO = {"stops_gradients": True, "share": seq_mean}


REFERENCES |= {
    "gmpo": clipped(**GMPO, surrogate=geometric()),
    "gmpo(low=0.1,high=0.2)+token_mean": clipped(stops_gradients=True, share=token_mean, surrogate=geometric(0.1, 0.2)),
}


# KPO (arXiv:2602.10609): exp of the log-ratios' Kalman filter, clipped to 1 - 3e-4 ... 1 + 4e-4.
#
# Token by token over those that the loss sees; the filter is not differentiated.


@stage
def kalman_ratio(case: Case, *, q=1e-6) -> Sized:
    """X <- x + K (z - x), where P is the filter's variance over the observation's, and K = (P + q)/(P + q + 1)."""
    result = np.ones(case.mask.shape)
    change = np.clip(case.current - case.logp_old, -20, 20)
    for row, mask in enumerate(case.mask):
        state, variance = 0.0, 0.0
        for t in mask.nonzero()[0]:
            gain = (variance + q) / (variance + q + 1)
            state, variance = state + gain * (change[row, t] - state), (1 - gain) * (variance + q)
            result[row, t] = math.exp(state)
    return result, result


KPO = {"stops_gradients": True, "surrogate": clip(3e-4, 4e-4), "share": seq_mean}


REFERENCES |= {
    "kpo": clipped(**KPO, ratio=kalman_ratio()),
    "kpo(q=1)": clipped(**KPO, ratio=kalman_ratio(1.0)),
    "kpo(q=0.01,low=0.2,high=0.2)": clipped(**{**KPO, "surrogate": clip()}, ratio=kalman_ratio(0.01)),
}


# MinPRO (arXiv:2601.22718): a token's ratio times the smallest ratio before it, clipped, times A; not differentiated.
#
# Log-ratios and their sums are clamped to [-20, 20].


@stage
def prefix_min_ratio(case: Case, *, prefix="strict") -> Sized:
    """Token by token over those that the loss sees."""
    change = np.clip(case.current - case.logp_old, -20, 20)
    result, slope = np.ones(change.shape), np.zeros(change.shape)
    for row, mask in enumerate(case.mask):
        seen = [0.0] if prefix == "capped" else []
        for t in mask.nonzero()[0]:
            z = change[row, t]
            total = z + (min([*seen, z]) if prefix == "inclusive" else min(seen, default=0.0))
            seen.append(z)
            result[row, t] = np.exp(np.clip(total, -20, 20))
            free = abs(total) <= 20 and abs(case.current[row, t] - case.logp_old[row, t]) <= 20
            slope[row, t] = result[row, t] * free
    return result, slope


MINPRO = {"stops_gradients": True, "ratio": prefix_min_ratio()}


REFERENCES |= {
    "minpro(low=1,high=4)": clipped(**MINPRO, surrogate=cispo()),
    "minpro(low=0.2,high=1,prefix=capped)": clipped(
        stops_gradients=True, ratio=prefix_min_ratio("capped"), surrogate=cispo(0.2, 1.0)
    ),
    "minpro(low=1,high=9,prefix=inclusive)": clipped(
        stops_gradients=True, ratio=prefix_min_ratio("inclusive"), surrogate=cispo(1.0, 9.0)
    ),
    "minpro+clip": clipped(**MINPRO, surrogate=clip()),
}


# VESPO (arXiv:2602.10693): W^k exp(l (1 - W)) A, W the product of a response's ratios; not differentiated.
#
# (k, l) is (2, 3) where A >= 0 and (3, 2) where A < 0. W is within e^-20 and e^20.

Pair = tuple[float, float]


@stage
def gamma_gate(
    case: Case, ratio: Array, slope: Array, advantage: Array, *, good: Pair = (2.0, 3.0), bad: Pair = (3.0, 2.0)
) -> Terms:
    """The weight times A; its exponent's terms magnify the ratio's rounding; float32 ends near 1e-38."""
    k, rate = (np.where(advantage < 0, second, first) for first, second in zip(good, bad, strict=True))
    value = ratio**k * np.exp(rate * (1 - ratio)) * advantage
    size = abs(value) * (1 + k * abs(np.log(ratio)) + rate * ratio)
    return value, value, size + 1e-30 * abs(advantage)


VESPO = {"stops_gradients": True, "ratio": sequence_ratio(mean=False)}


REFERENCES |= {
    "vespo": clipped(**VESPO, surrogate=gamma_gate()),
    "vespo(norm=mean,k_good=1,l_good=1,k_bad=1,l_bad=1)": clipped(
        stops_gradients=True, ratio=sequence_ratio(), surrogate=gamma_gate((1.0, 1.0), (1.0, 1.0))
    ),
}


# TOPR (arXiv:2503.14286): A is 1 or -1; weight 1 where A > 0, the response's ratio in [0, 1] where A < 0; detached.


def right_or_wrong(case: Case, reward: Array) -> Sized:
    """1 where correct in full, else -1."""
    result = np.where(case.correct == 1, 1.0, -1.0)
    return result, abs(result)


@stage
def taper(case: Case, ratio: Array, slope: Array, advantage: Array, *, low=0.0, high=1.0) -> Terms:
    """The weight times A."""
    value = np.where(advantage > 0, 1.0, np.clip(ratio, low, high)) * advantage
    return value, value, abs(value)


TOPR = {"stops_gradients": True, "advantage": right_or_wrong, "share": seq_mean}


REFERENCES |= {
    "topr": clipped(**TOPR, ratio=sequence_ratio(mean=False), surrogate=taper()),
    "topr(norm=mean,low=0.5,high=2)": clipped(**TOPR, ratio=sequence_ratio(), surrogate=taper(0.5, 2.0)),
    "topr+group_norm": clipped(
        **{**TOPR, "advantage": group_norm}, ratio=sequence_ratio(mean=False), surrogate=taper()
    ),
}
