"""Ratios and losses of whole responses and of groups."""

import math

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.references.parts import (
    cispo,
    clip,
    clipped,
    drift,
    group_center,
    group_norm,
    reinforce,
    reweighting,
    seq_mean,
    seq_sum,
    sequence_ratio,
    token_mean,
)
from tests.objectives.references.stages import Reference, Share, Sized, Term, Terms, groups, per_token, stage

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


# NFT (arXiv:2505.18116): right answers by their likelihood, wrong ones by that of the policy without the right ones.
#
# omega [ c log r + (1 - c) log max_v((1 - p r) / (1 - p), eps) ], p the group's mean of c, omega = 1 - p; max_v
# clips the
# value and keeps the gradient of its argument.


@stage
def implicit_negative(case: Case, ratio: Array, slope: Array, advantage: Array, *, eps=1.0) -> Terms:
    """The objective of each token, and its derivative by log pi, with d r / d log pi = `slope`."""
    value, by_logp, size = np.zeros(ratio.shape), np.zeros(ratio.shape), np.zeros(ratio.shape)
    for rows in groups(case):
        success = case.correct[rows].sum() / rows.sum()
        if success == 1:
            continue
        right = per_token(case, case.correct)[rows]
        negative = np.maximum((1 - success * ratio[rows]) / (1 - success), eps)
        omega = 1 - success
        value[rows] = omega * (right * np.log(ratio[rows]) + (1 - right) * np.log(negative))
        without = success / (1 - success) / negative
        by_logp[rows] = omega * (right / ratio[rows] - (1 - right) * without) * slope[rows]
        size[rows] = omega * (right / ratio[rows] + (1 - right) * without) * slope[rows]
    return value, by_logp, size


NFT = {"stops_gradients": True, "advantage": group_center}


REFERENCES |= {
    "nft": clipped(**NFT, surrogate=implicit_negative()),
    "nft(eps=0.1)": clipped(**NFT, surrogate=implicit_negative(0.1)),
}


# REAL (arXiv:2602.05630): log(1 + sum e^(-s/tau) of the good) + log(1 + sum e^(s/tau) of the others) of each prompt.
#
# S is a response's mean log-ratio; the loss of a response is its group's, its push the derivative times the group's
# size.


@stage
def group_contrast(case: Case, ratio: Array, slope: Array, advantage: Array, *, tau=0.5) -> Terms:
    """The objective of each token, and its derivative by log pi."""
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


REAL = {"stops_gradients": True, "advantage": group_center, "share": seq_mean}


REFERENCES |= {
    "real": clipped(**REAL, surrogate=group_contrast()),
    "real(tau=2)": clipped(**REAL, surrogate=group_contrast(2.0)),
    "real+group_norm+token_mean": clipped(
        stops_gradients=True, advantage=group_norm, share=token_mean, surrogate=group_contrast()
    ),
}


# GVPO (arXiv:2504.19599; verl-project/verl-recipe@48ea0a7 gvpo/gvpo_core_algos.py:39-57, over prompts).
#
# 1/(2 (k - 1)) sum_i [ (s_i - mean s) - (R_i - mean R) ]^2 of each prompt, s_i = beta sum of its log-ratios.


@stage
def group_variance(case: Case, ratio: Array, slope: Array, advantage: Array, *, beta=0.1) -> Terms:
    """The objective of each token, its response's over its tokens, and its derivative by log pi."""
    value, by_logp, size = (np.zeros(ratio.shape) for _ in range(3))
    lengths = case.mask.sum(1)
    s = beta * np.clip(np.where(case.mask, case.current - case.logp_old, 0.0), -20, 20).sum(1)
    worth = (advantage * case.mask).sum(1) / np.maximum(1, lengths)
    for rows in groups(case):
        rows = rows & (lengths > 0)
        k = int(rows.sum())
        if k > 1:
            left = (s[rows] - s[rows].mean() - worth[rows])[:, None]
            value[rows] = -k / (2 * (k - 1)) * left**2 / lengths[rows, None]
            by_logp[rows] = -k / (k - 1) * beta * left
            size[rows] = 2 * beta * (abs(s[rows]) + abs(s[rows]).mean() + abs(worth[rows]))[:, None]
    return value, by_logp, size


GVPO = {"advantage": group_center, "share": seq_sum}


REFERENCES |= {
    "gvpo": clipped(**GVPO, surrogate=group_variance()),
    "gvpo(beta=1)": clipped(**GVPO, surrogate=group_variance(1.0)),
    "gvpo+group_norm": clipped(advantage=group_norm, share=seq_sum, surrogate=group_variance()),
}


# TPO (arXiv:2604.06159 eq. 1-3, appendix A; JeanKaddour/tpo@73473b9 src/tpo/algorithms.py:287-324).
#
# -sum_i q_i log P_i of each prompt: P the softmax of the responses' log-probs, q that of the old ones and u / eta.

SMALLEST = 1e-20


"""Probabilities below are judged by it."""


def population_norm(case: Case, reward: Array) -> Sized:
    """(R - mean) / std with ddof 0 over all rows of the group."""
    centred, size = group_center(case, reward)
    deviation = np.ones(len(reward))
    for rows in groups(case):
        deviation[rows] = math.sqrt((centred[rows] ** 2).sum() / rows.sum()) or 1.0
    return centred / deviation, size / deviation


def log_softmax(scores: Array) -> Array:
    apart = scores - scores.max()
    return apart - math.log(np.exp(apart).sum())


@stage
def target_match(case: Case, ratio: Array, slope: Array, advantage: Array, *, eta=1.0) -> Terms:
    """The objective of each token, its prompt's over its response's tokens, and its derivative by log pi."""
    value, by_logp, size = (np.zeros(ratio.shape) for _ in range(3))
    lengths = case.mask.sum(1)
    now, old = (np.where(case.mask, logp, 0.0).sum(1) for logp in (case.current, case.logp_old))
    u = (advantage * case.mask).sum(1) / np.maximum(1, lengths)
    for rows in groups(case):
        rows = rows & (lengths > 0)
        if rows.any():
            log_p, q = log_softmax(now[rows]), np.exp(log_softmax(old[rows] + u[rows] / eta))
            value[rows] = ((q * log_p).sum() / lengths[rows])[:, None]
            by_logp[rows] = rows.sum() * (q - np.exp(log_p))[:, None]
            size[rows] = rows.sum() * np.maximum(q + np.exp(log_p), SMALLEST)[:, None]
    return value, by_logp, size


TPO = {"advantage": population_norm, "share": seq_sum}


REFERENCES |= {
    "tpo": clipped(**TPO, surrogate=target_match()),
    "tpo(eta=0.25)": clipped(**TPO, surrogate=target_match(0.25)),
    "tpo+group_norm": clipped(advantage=group_norm, share=seq_sum, surrogate=target_match()),
    "justrl+population_norm": clipped(advantage=population_norm),
}


# Kimi k1.5 (arXiv:2501.12599, eq. 3): A log pi - (tau/2) (sum of log pi/pi_old)^2 of each response.
#
# ROLL (alibaba/ROLL@8eb27cc, roll/pipeline/rlvr/actor_pg_worker.py:408-436): tau/2 (log pi/pi_old)^2 of each token.


@stage
def sequence_drift(case: Case, advantage: Array, share: Share, *, tau=0.1) -> Term:
    """The square of a response's sum, told as a part for each of its tokens."""
    z = np.where(case.mask, case.current - case.logp_old, 0.0)
    whole, each = z.sum(1, keepdims=True), share(case, case.mask) * case.mask
    size = abs(z).sum(1, keepdims=True) + abs(case.current) + abs(case.logp_old)
    return Term(each * tau / 2 * z * whole, each * tau * whole, np.zeros(z.shape), each * tau * size * (1 + abs(z)))


KIMI = {"advantage": group_center, "surrogate": reinforce, "stops_gradients": True}


REFERENCES |= {
    "kimi": clipped(**KIMI, share=seq_sum, penalties=[sequence_drift()]),
    "kimi(variant=roll)": clipped(**KIMI, penalties=[drift(0.1)]),
    "kimi(tau=1)": clipped(**KIMI, share=seq_sum, penalties=[sequence_drift(1.0)]),
    "justrl+sequence_drift": clipped(penalties=[sequence_drift()]),
}
