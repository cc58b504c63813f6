"""Losses of whole responses and groups."""

import math

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.references.parts import (
    clipped,
    drift,
    group_center,
    group_norm,
    reinforce,
    seq_mean,
    seq_sum,
    token_mean,
)
from tests.objectives.references.stages import Reference, Share, Sized, Term, Terms, groups, per_token, stage

REFERENCES: dict[str, Reference] = {}

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
