"""The stages from the ratio to the schedule, each part from its equation."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from objectives import Writer
from tests.objectives.batches import Array, Case, Flags
from tests.objectives.references.advantages import height, mismatch, widths
from tests.objectives.references.stages import (
    Kept,
    Limits,
    Share,
    Sized,
    Term,
    Terms,
    empty,
    groups,
    log_change,
    part,
    per_token,
    pools,
    quantile,
)

# ---- 5: ratios -------------------------------------------------------------------------------------------------------


@part
def token_ratio(case: Case, advantage: Array) -> Sized:
    """Pi / pi_old, e^20 at most."""
    return _ratio(case.current - case.logp_old)


@part
def sampler_ratio(case: Case, advantage: Array) -> Sized:
    """Pi / pi_sampler."""
    return _ratio(case.current - case.logp_sampler)


def _ratio(difference: Array) -> Sized:
    ratio = np.exp(np.clip(difference, -20.0, 20.0))
    return ratio, np.where(abs(difference) <= 20.0, ratio, 0.0)


@part
def sequence_ratio(case: Case, advantage: Array, *, norm: str) -> Sized:
    """GSPO (arXiv:2507.18071, eq. 5-7): exp of the mean, or of the sum, of the log-ratios of the response."""
    total = (log_change(case) * case.mask).sum(1)
    tokens = np.maximum(1, case.mask.sum(1)) if norm == "mean" else 1
    result = per_token(case, np.exp(np.clip(total / tokens, -20, 20)))
    return result, result


@part
def geometric_ratio(case: Case, advantage: Array, *, low: float, high: float) -> Sized:
    """GMPO (arXiv:2507.20673): exp of the mean of log-ratios, clipped above where A >= 0, below where A < 0."""
    change = log_change(case)
    live = np.where(advantage >= 0, change <= high, change >= -low)
    bounded = np.where(live, change, np.where(advantage >= 0, high, -low))
    value = np.ones(change.shape)
    for row, tokens in enumerate(case.mask):
        if tokens.any():
            value[row] = np.exp(bounded[row, tokens].sum() / tokens.sum())
    return value, np.where(live, value, 0.0)


@part
def kalman_ratio(case: Case, advantage: Array, *, q: float) -> Sized:
    """KPO (arXiv:2602.10609): exp of X <- X + K (z - X), P the filter's variance, K = (P + q)/(P + q + 1).

    Token by token over those that the loss sees; the filter is not differentiated.
    """
    result = np.ones(case.mask.shape)
    change = log_change(case)
    for row, mask in enumerate(case.mask):
        state, variance = 0.0, 0.0
        for t in mask.nonzero()[0]:
            gain = (variance + q) / (variance + q + 1)
            state, variance = state + gain * (change[row, t] - state), (1 - gain) * (variance + q)
            result[row, t] = math.exp(state)
    return result, result


@part
def prefix_min_ratio(case: Case, advantage: Array, *, prefix: str) -> Sized:
    """MinPRO (arXiv:2601.22718): a token's ratio times the smallest before it, over the tokens that the loss sees."""
    change = log_change(case)
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


# ---- 6: bounds -------------------------------------------------------------------------------------------------------


@part
def clip_higher(case: Case, ratio: Array, advantage: Array, limits: Limits, *, high: float) -> Limits:
    """DAPO: an upper bound of its own."""
    return replace(limits, high=high)


@part
def dual_clip(case: Case, ratio: Array, advantage: Array, limits: Limits, *, cap: float) -> Limits:
    """At least cap A where A < 0."""
    return replace(limits, cap=cap)


@part
def dynamic_clip(case: Case, ratio: Array, advantage: Array, limits: Limits, at: Any) -> Limits:
    """DCPO (arXiv:2509.02333): bounds .5 + .5 sqrt(1 - 4 low/q) and .5 + .5 sqrt(1 + 4 high/q), at most 10."""
    below, above = np.ones(ratio.shape), np.ones(ratio.shape)
    for token in zip(*case.mask.nonzero(), strict=True):
        q = math.exp(case.logp_old[token])
        below[token] = 1 - (0.5 + 0.5 * math.sqrt(max(1 - 4 * at.low / q, 0)))
        above[token] = min(0.5 + 0.5 * math.sqrt(1 + 4 * at.high / q), at.most) - 1
    return replace(limits, low=below, high=above)


@part
def heterogeneous_clip(case: Case, ratio: Array, advantage: Array, limits: Limits, at: Any) -> Limits:
    """HAPO: bounds token by token."""
    below, above = widths(height(case, at.scope, at.rho, at.sign), at.alpha, at.low, at.high)
    return replace(limits, low=below, high=above)


def measured(gain: Array, ratio: Array, lower: float, upper: float, measure: str) -> float:
    """P/(P + N) or P/N; infinite where there is nothing below the line."""
    positive = (np.maximum(gain, 0) * np.minimum(ratio, upper)).sum()
    negative = (np.maximum(-gain, 0) * np.maximum(ratio, lower)).sum()
    below = positive + negative if measure == "share" else negative
    return float(positive / below) if below > 0 else math.inf


@part
def balanced_clip(case: Case, ratio: Array, advantage: Array, limits: Limits, at: Any) -> Limits:
    """BAPO (arXiv:2510.18927, Algorithm 1): bounds in hundredths, the first moved to its end before the other is.

    Until the share of P = sum over A > 0 of min(r, upper) A in P + N, N = sum over A < 0 of max(r, lower) |A|, weighted
    by pi_old, or P/N, reaches the target. Equal up to 1e-6 is reached.
    """
    below, above = np.ones(ratio.shape), np.ones(ratio.shape)
    for pool in pools(case, case.mask, at.scope):
        gain = (np.exp(case.logp_old[pool]) if at.weighted else 1.0) * advantage[pool]
        bound = {"lower": round(100 * at.lower), "upper": round(100 * at.upper)}
        ends = {"lower": (at.lower_step, at.lower_most), "upper": (at.upper_step, at.upper_most)}
        order = ("lower", "upper") if at.first == "lower" else ("upper", "lower")
        target = at.target * (1 - 1e-6)
        while measured(gain, ratio[pool], bound["lower"] / 100, bound["upper"] / 100, at.measure) < target:
            free = [name for name in order if bound[name] + round(100 * ends[name][0]) <= round(100 * ends[name][1])]
            if not free:
                break
            bound[free[0]] += round(100 * ends[free[0]][0])
        below[pool], above[pool] = 1 - bound["lower"] / 100, bound["upper"] / 100 - 1
    return replace(limits, low=below, high=above)


def harmful(case: Case, advantage: Array) -> tuple[Array, Flags]:
    """M2PO's log-ratios, and the tokens that have moved in the direction of their advantage."""
    change = log_change(case)
    return change, case.mask & (((advantage > 0) & (change > 0)) | ((advantage < 0) & (change < 0)))


@part
def second_moment_clip(case: Case, ratio: Array, advantage: Array, limits: Limits, at: Any) -> Limits:
    """M2PO's code (Infini-AI-Lab/M2PO@af54a3e, verl/trainer/ppo/core_algos.py:683-810): tau from the sorted squares."""
    change, there = harmful(case, advantage)
    below, above = np.ones(ratio.shape), np.full(ratio.shape, math.inf)
    for pool in pools(case, case.mask, at.scope):
        tau = m2po_width(sorted((change[pool & there] ** 2).tolist()), at.budget)
        below[pool], above[pool] = max(1 - math.exp(-tau), at.low), max(math.exp(tau) - 1, at.high)
    return replace(limits, low=below, high=above)


def m2po_width(squares: list[float], budget: float) -> float:
    """Tau of the ascending squares of a pool."""
    total = budget * len(squares)
    if sum(squares) <= total * (1 + 1e-6):
        return math.inf
    for k, square in enumerate(squares):
        if sum(squares[: k + 1]) + square * (len(squares) - k - 1) > total * (1 + 1e-6):
            return below_the_last(squares[:k]) if k else 0.0
    raise AssertionError("the sum exceeds the budget")


def below_the_last(squares: list[float]) -> float:
    """The code clips at the last root itself, where rounding decides; here a little below it."""
    last = math.sqrt(squares[-1])
    others = [math.sqrt(square) for square in squares if square < squares[-1] * (1 - 1e-5)]
    return max(0.999 * last, (last + others[-1]) / 2 if others else 0.0)


# ---- 6: surrogates ---------------------------------------------------------------------------------------------------


@part
def clip(
    case: Case, ratio: Array, slope: Array, advantage: Array, limits: Limits, *, low: float | None = None
) -> Terms:
    """PPO: the minimum of r A and of r A with r clipped, at least c A where A < 0; and its derivative by log pi."""
    free, bounded = ratio * advantage, np.clip(ratio, 1 - limits.low, 1 + limits.high) * advantage
    value = np.minimum(free, bounded)
    by_logp = np.where(bounded < free, 0.0, slope * advantage)
    if math.isfinite(limits.cap):
        capped = (advantage < 0) & (limits.cap * advantage > value)
        value, by_logp = np.where(capped, limits.cap * advantage, value), np.where(capped, 0.0, by_logp)
    return value, by_logp, abs(by_logp)


@part
def unclipped(case: Case, ratio: Array, slope: Array, advantage: Array, limits: Limits) -> Terms:
    """R A."""
    return ratio * advantage, slope * advantage, abs(slope * advantage)


@part
def reinforce(case: Case, ratio: Array, slope: Array, advantage: Array, limits: Limits) -> Terms:
    """A, and as derivative by log pi the same, whatever the ratio."""
    each = np.broadcast_to(advantage, ratio.shape)
    return each, each, abs(each)


@part
def cispo(case: Case, ratio: Array, slope: Array, advantage: Array, limits: Limits, at: Any) -> Terms:
    """CISPO (arXiv:2506.13585, eq. 4-5): sg[clip(r, 1 - low, 1 + high)] A pi / sg[pi]."""
    weighted = np.minimum(np.maximum(ratio, 1 - at.low), 1 + at.high) * advantage
    return weighted, weighted, abs(weighted)


@part
def divergence_clip(case: Case, ratio: Array, slope: Array, advantage: Array, limits: Limits, at: Any) -> Terms:
    """DPPO (arXiv:2602.04879): min(r, cap) A, or nothing where the probability has moved far in the direction of A.

    Moved: |p_sampler - p|, or the KL of (p_sampler, 1 - p_sampler) from (p, 1 - p), with 1e-8 in the logarithms of the
    complements. p_sampler is p over the ratio.
    """
    p = np.exp(case.current)
    mu = p / ratio
    moved = abs(mu - p)
    if at.kind == "kl":
        moved = mu * np.log(mu / p) + (1 - mu) * (np.log(1 - mu + 1e-8) - np.log(1 - p + 1e-8))
    onward = np.where(advantage > 0, p > mu, p < mu) | (at.side == "both")
    value = np.where(
        onward & (moved > at.delta), 0.0, np.minimum(ratio, math.inf if at.cap is None else at.cap) * advantage
    )
    return value, value, abs(value)


@part
def flipped_clip(case: Case, ratio: Array, slope: Array, advantage: Array, limits: Limits, at: Any) -> Terms:
    """ASPO (arXiv:2510.06062): min(1/r, most) A where A > 0, none above; min(r, most) A where A < 0, none below."""
    value = np.minimum(np.where(advantage > 0, 1 / ratio, ratio), at.most) * advantage
    dropped = np.where(advantage > 0, ratio > 1 + limits.high, ratio < 1 - limits.low)
    return value, np.where(dropped, 0.0, value), abs(value)


@part
def gradient_preserving_clip(
    case: Case, ratio: Array, slope: Array, advantage: Array, limits: Limits, at: Any
) -> Terms:
    """CE-GPPO (arXiv:2509.20712): beta1 (1 - low) A below where A < 0, beta2 (1 + high) A above where A > 0, else r A.

    Where A < 0 and r > cap the objective is cap A, without a gradient.
    """
    value, by_logp = ratio * advantage, slope * advantage
    below, above = (np.broadcast_to(it, ratio.shape) for it in (1 - limits.low, 1 + limits.high))
    for token in zip(*case.mask.nonzero(), strict=True):
        if advantage[token] < 0 and ratio[token] < below[token]:
            value[token] = by_logp[token] = at.beta1 * below[token] * advantage[token]
        elif advantage[token] > 0 and ratio[token] > above[token]:
            value[token] = by_logp[token] = at.beta2 * above[token] * advantage[token]
        elif advantage[token] < 0 and ratio[token] > limits.cap:
            value[token], by_logp[token] = limits.cap * advantage[token], 0.0
    return value, by_logp, abs(by_logp)


@part
def unbounded_positive(case: Case, ratio: Array, slope: Array, advantage: Array, limits: Limits, at: Any) -> Terms:
    """UP (arXiv:2607.06987, eq. 14-15; verl's pull request 7022): A pi/sg[pi] where A > 0, PPO's clip elsewhere."""
    good = np.broadcast_to(advantage > 0, ratio.shape)
    return tuple(np.where(good, advantage, it) for it in clip(case, ratio, slope, advantage, limits))


@part
def banded_reinforce(case: Case, ratio: Array, slope: Array, advantage: Array, limits: Limits, at: Any) -> Terms:
    """REC (arXiv:2509.24203; agentscope-ai/Trinity-RFT@1d7fae4, policy_loss_fn/rec_policy_loss.py:66-116)."""
    inside = (ratio >= 1 - at.low) & (ratio <= 1 + at.high)
    if at.band == "one_side":
        inside = ((ratio <= 1 + at.high) & (advantage >= 0)) | ((advantage <= 0) & (ratio >= 1 - at.low))
    if at.band == "ring":
        inside |= ((advantage >= 0) & (ratio <= 1 - at.far_low)) | ((advantage <= 0) & (ratio >= 1 + at.far_high))
    value = inside * advantage * (ratio if at.weighted else 1.0)
    return value, value, abs(value)


@part
def soft_gate(case: Case, ratio: Array, slope: Array, advantage: Array, limits: Limits, at: Any) -> Terms:
    """SAPO (arXiv:2511.20347): (4/tau) sigmoid(tau (r - 1)) A; its derivative 4 s (1 - s) by r has s^2 taken off s."""
    tau = np.where(advantage > 0, at.tau_pos, at.tau_neg)
    s = 1 / (1 + np.exp(-tau * (ratio - 1)))
    return 4 / tau * s * advantage, 4 * s * (1 - s) * slope * advantage, 4 * s * (1 + s) * abs(slope * advantage)


@part
def symmetric_clip(case: Case, ratio: Array, slope: Array, advantage: Array, limits: Limits, at: Any) -> Terms:
    """Symmetric loss (arXiv:2405.17618): alpha times PPO's, and beta A (1 - pi) / pi_old where the clip is idle.

    What has no gradient, A / pi_old, is left out. The second one counts as the authors' flags say.
    """
    value, by_logp, _ = clip(case, ratio, slope, advantage, limits)
    lower, upper = 1 - limits.low, 1 + limits.high
    idle = ((lower <= ratio) & (ratio <= upper)) | (ratio * advantage <= np.clip(ratio, lower, upper) * advantage)
    by_logp = at.alpha * by_logp + at.beta * idle * slope * advantage
    return at.alpha * value + at.beta * idle * ratio * advantage, by_logp, abs(by_logp)


@part
def gamma_gate(case: Case, ratio: Array, slope: Array, advantage: Array, limits: Limits, at: Any) -> Terms:
    """VESPO (arXiv:2602.10693): W^k exp(l (1 - W)) A; the exponent's terms magnify the rounding of W.

    Float32 ends near 1e-38.
    """
    k, rate = np.where(advantage < 0, at.k_bad, at.k_good), np.where(advantage < 0, at.l_bad, at.l_good)
    value = ratio**k * np.exp(rate * (1 - ratio)) * advantage
    size = abs(value) * (1 + k * abs(np.log(ratio)) + rate * ratio)
    return value, value, size + 1e-30 * abs(advantage)


@part
def taper(case: Case, ratio: Array, slope: Array, advantage: Array, limits: Limits, at: Any) -> Terms:
    """TOPR (arXiv:2503.14286): weight 1 where A > 0, the response's ratio in [low, high] where A < 0; detached."""
    value = np.where(advantage > 0, 1.0, np.clip(ratio, at.low, at.high)) * advantage
    return value, value, abs(value)


@part
def implicit_negative(case: Case, ratio: Array, slope: Array, advantage: Array, limits: Limits, *, eps: float) -> Terms:
    """NFT (arXiv:2505.18116): omega [ c log r + (1 - c) log max_v((1 - p r) / (1 - p), eps) ], omega = 1 - p.

    P is the group's mean of c; max_v clips the value and keeps the gradient of its argument.
    """
    value, by_logp, size = empty(case)
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


@part
def group_contrast(case: Case, ratio: Array, slope: Array, advantage: Array, limits: Limits, *, tau: float) -> Terms:
    """REAL (arXiv:2602.05630): log(1 + sum e^(-s/tau) of the good) + log(1 + sum e^(s/tau) of the others) of a prompt.

    S is a response's mean log-ratio; the loss of a response is its group's, its gradient the derivative times the
    group's size.
    """
    value, by_logp, _ = empty(case)
    lengths = case.mask.sum(1)
    s = np.where(case.mask, log_change(case), 0.0).sum(1) / np.maximum(1, lengths) / tau
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


@part
def group_variance(case: Case, ratio: Array, slope: Array, advantage: Array, limits: Limits, *, beta: float) -> Terms:
    """GVPO (arXiv:2504.19599): 1/(2 (k - 1)) sum_i [ (s_i - mean s) - (R_i - mean R) ]^2 of each prompt.

    S_i is beta times the sum of a response's log-ratios (verl-project/verl-recipe@48ea0a7
    gvpo/gvpo_core_algos.py:39-57, over prompts).
    """
    value, by_logp, size = empty(case)
    lengths = case.mask.sum(1)
    s = beta * np.where(case.mask, log_change(case), 0.0).sum(1)
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


def log_softmax(scores: Array) -> Array:
    apart = scores - scores.max()
    return apart - math.log(np.exp(apart).sum())


@part
def target_match(case: Case, ratio: Array, slope: Array, advantage: Array, limits: Limits, *, eta: float) -> Terms:
    """TPO (arXiv:2604.06159 eq. 1-3, appendix A; JeanKaddour/tpo@73473b9 src/tpo/algorithms.py:287-324).

    -sum_i q_i log P_i of each prompt: P the softmax of the responses' log-probs, q that of the old ones and u / eta.
    Probabilities below 1e-20 are judged by it.
    """
    value, by_logp, size = empty(case)
    lengths = case.mask.sum(1)
    now, old = (np.where(case.mask, logp, 0.0).sum(1) for logp in (case.current, case.logp_old))
    u = (advantage * case.mask).sum(1) / np.maximum(1, lengths)
    for rows in groups(case):
        rows = rows & (lengths > 0)
        if rows.any():
            log_p, q = log_softmax(now[rows]), np.exp(log_softmax(old[rows] + u[rows] / eta))
            value[rows] = ((q * log_p).sum() / lengths[rows])[:, None]
            by_logp[rows] = rows.sum() * (q - np.exp(log_p))[:, None]
            size[rows] = rows.sum() * np.maximum(q + np.exp(log_p), 1e-20)[:, None]
    return value, by_logp, size


# ---- 7: masks --------------------------------------------------------------------------------------------------------


@part
def sampler_mask(case: Case, advantage: Array, limits: Limits, at: Any) -> Kept:
    """Tokens with low <= p_old / p_sampler <= high."""
    ratio = mismatch(case, at.level)
    return (ratio >= at.low) & (ratio <= at.high), at.shrinks


@part
def off_policy_mask(case: Case, advantage: Array, limits: Limits, *, delta: float, anchor: str) -> Kept:
    """Not where A < 0 in a response whose log-probs have fallen by more than delta in the mean."""
    keeps = case.mask.copy()
    fall = np.clip((case.logp_old if anchor == "old" else case.logp_sampler) - case.current, -20, 20)
    for row, tokens in enumerate(case.mask):
        if tokens.any() and fall[row, tokens].sum() / tokens.sum() > delta:
            keeps[row] &= advantage[row] >= 0
    return keeps, False


@part
def second_moment_mask(case: Case, advantage: Array, limits: Limits, *, budget: float) -> Kept:
    """M2PO (arXiv:2510.01161, Algorithm 1): the largest squares leave until the mean of the others is in the budget."""
    change, there = harmful(case, advantage)
    while there.any() and (change[there] ** 2).mean() > budget * (1 + 1e-6):
        there = there & (change**2 < (change[there] ** 2).max())
    return case.mask & (there | ~harmful(case, advantage)[1]), False


@part
def top_entropy(case: Case, advantage: Array, limits: Limits, at: Any) -> Kept:
    """20-Entropy (arXiv:2506.01939, eq. 6): H >= tau, which keeps the top ceil(fraction n) tokens, ties included."""
    entropy = case.entropy_old if at.source == "old" else case.current_entropy
    kept = np.zeros(case.mask.shape, dtype=bool)
    for pool in pools(case, case.mask, at.scope):
        count = max(1, int(pool.sum() * at.fraction + 0.9999))
        kept |= pool & (entropy >= sorted(entropy[pool], reverse=True)[count - 1])
    return kept, at.denominator == "kept"


@part
def s2t(case: Case, advantage: Array, limits: Limits, at: Any) -> Kept:
    """STAPO (arXiv:2602.15620): not (A > 0, p < tau, H below the q-quantile over the tokens with the first two)."""
    logp = case.logp_old if at.source == "old" else case.current
    entropy = case.entropy_old if at.source == "old" else case.current_entropy
    kept = case.mask.copy()
    for pool in pools(case, case.mask & (advantage > 0) & (logp < math.log(at.tau_p)), at.scope):
        kept &= ~(pool & (entropy < quantile(entropy[pool], at.q)))
    return kept, at.denominator == "kept"


def covariance(case: Case, advantage: Array, pool: Flags) -> Array:
    """[N, T] (log pi - mean) (A - mean) with the means over a pool; exactly 0 where either is the same everywhere.

    Rounded to float32: what is tied in exact arithmetic, as both of two tokens are, is tied.
    """
    logp, others = case.current[pool], advantage[pool]
    if (logp == logp[0]).all() or (others == others[0]).all():
        return np.zeros(pool.shape)
    cov = (case.current - logp.sum() / len(logp)) * (advantage - others.sum() / len(others))
    return cov.astype(np.float32)


@part
def clip_cov(case: Case, advantage: Array, limits: Limits, at: Any) -> Kept:
    """Clip-Cov (arXiv:2505.22617): not the floor(rho N) tokens, at least one, of the smallest random keys in the band.

    Low < Cov < high; tokens that the clip spares.
    """
    kept, ratio = case.mask.copy(), limits.ratio
    clipped_off = np.where(advantage > 0, ratio > 1 + limits.high, (ratio < 1 - limits.low) & (advantage < 0))
    for pool in pools(case, case.mask, at.scope):
        cov = covariance(case, advantage, pool)
        band = pool & (cov > at.low) & (cov < at.high) & ~clipped_off
        tokens = sorted(zip(*band.nonzero(), strict=True), key=lambda token: case.random_key[token])
        for token in tokens[: max(1, int(at.fraction * pool.sum() + 1e-9))]:
            kept[token] = False
    return kept, False


@part
def random_tokens(case: Case, advantage: Array, limits: Limits, *, share: float, first: int, limit: int | None) -> Kept:
    """S-GRPO (arXiv:2504.20834): the first tokens of a response and random keys below the share, `limit` at most."""
    kept, most = np.zeros_like(case.mask), math.inf if limit is None else limit
    for row, tokens in enumerate(case.mask):
        for t, position in enumerate(tokens.nonzero()[0]):
            is_drawn = (int(case.random_key[row, position]) + 2**63) / 2**64 < share
            kept[row, position] = t < first or (kept[row].sum() < most and is_drawn)
    return kept, True


# ---- 8: denominators -------------------------------------------------------------------------------------------------


def response_count(case: Case) -> int:
    """Responses with a token, at least one."""
    return max(1, int(case.mask.any(1).sum()))


@part
def seq_mean(case: Case, counted: Flags) -> Array:
    """Mean over the tokens of each response, then over responses."""
    return per_token(case, 1 / response_count(case) / np.maximum(1, counted.sum(1)))


@part
def seq_sum(case: Case, counted: Flags) -> Array:
    """Sum over the tokens of each response, then mean over responses."""
    return np.full(counted.shape, 1 / response_count(case))


@part
def constant_length(case: Case, counted: Flags, *, length: int | None) -> Array:
    """Dr. GRPO (arXiv:2503.20783): sum over the tokens over a constant, then mean over responses."""
    return np.full(counted.shape, 1 / response_count(case) / (length or case.max_length))


@part
def token_mean(case: Case, counted: Flags, *, scope: str) -> Array:
    """Mean over all tokens; over those of each prompt or micro-batch, then over prompts or weighted by responses."""
    if scope == "minibatch":
        return np.full(counted.shape, 1 / max(1, int(counted.sum())))
    share, names = np.zeros(counted.shape), case.group if scope == "prompt" else case.micro_batch
    prompts = max(1, sum(bool(case.mask[rows].any()) for rows in groups(case)))
    for name in set(names.tolist()):
        rows = names == name
        part_of_all = 1 / prompts if scope == "prompt" else case.mask[rows].any(1).sum() / response_count(case)
        share[rows] = part_of_all / max(1, int(counted[rows].sum()))
    return share


# ---- 9: penalties ----------------------------------------------------------------------------------------------------


@part
def kl(
    case: Case, advantage: Array, share: Share, *, beta: float, estimator: str, clamp: float | None, anchor="ref"
) -> Term:
    """The estimate of KL(pi, pi_ref), or to another, of each token, meant over all of them as the loss is."""
    difference = getattr(case, f"logp_{anchor}") - case.current
    x = difference if clamp is None else np.clip(difference, -clamp, clamp)
    size = abs(x) + 1
    if estimator == "k1":
        value, slope = -x, np.ones(x.shape)
    elif estimator == "k2":
        value, slope, size = x * x / 2, -x, x * x / 2 + abs(x)
    else:
        value, slope, size = np.exp(x) - x - 1, 1 - np.exp(x), np.exp(x) + abs(x) + 1
    if clamp is not None:
        slope = np.where((abs(difference) <= clamp) & (abs(value) <= 10), slope, 0.0)
        value = np.clip(value, -10, 10)
    each = share(case, case.mask) * beta * case.mask
    return Term(each * value, each * slope, np.zeros(x.shape), each * size)


@part
def teacher_kl(case: Case, advantage: Array, share: Share, *, beta: float, estimator: str, clamp: float | None) -> Term:
    """The estimate of KL(pi, pi_teacher)."""
    return kl(case, advantage, share, beta=beta, estimator=estimator, clamp=clamp, anchor="teacher")


@part
def unbiased_kl(case: Case, advantage: Array, share: Share, *, beta: float) -> Term:
    """DeepSeek-V3.2 (arXiv:2512.02556; huggingface/trl@f2cd577, grpo_trainer.py:3068-3076): r k3, both live."""
    x, z = case.logp_ref - case.current, case.current - case.logp_old
    ratio = np.exp(np.clip(z, -20, 20))
    k3, size = np.exp(x) - x - 1, np.exp(x) + abs(x) + 1
    slope = ratio * (np.where(abs(z) <= 20, k3, 0.0) + 1 - np.exp(x))
    each = share(case, case.mask) * beta * case.mask
    return Term(each * ratio * k3, each * slope, np.zeros(x.shape), 2 * each * ratio * size)


@part
def entropy_bonus(case: Case, advantage: Array, share: Share, *, coefficient: float) -> Term:
    """Minus the entropy of each token, meant over all of them as the loss is."""
    each = share(case, case.mask) * coefficient * case.mask
    entropy = case.current_entropy
    return Term(-each * entropy, np.zeros(entropy.shape), -each, np.zeros(entropy.shape))


@part
def adaptive_entropy(case: Case, advantage: Array, share: Share, at: Any) -> Term:
    """Skywork-OR1's MAGIC (arXiv:2505.22312) in its first step: an entropy bonus with its start as coefficient.

    On while the mean of H_old, or of -log p_old, is below the target. The authors' code (SkyworkAI/Skywork-OR1@64e96af,
    core_algos.py:56-74, ray_trainer.py:1168, dp_actor.py:269-284): the switch is that of the last step, on at first.
    """
    mean = (-case.logp_old if at.measured == "surprisal" else case.entropy_old)[case.mask]
    is_on = at.delayed or (len(mean) > 0 and mean.mean() < at.target_entropy)
    return entropy_bonus(case, advantage, share, coefficient=at.start if is_on else 0.0)


@part
def positive_nll(case: Case, advantage: Array, share: Share, *, mu: float) -> Term:
    """VAPO (arXiv:2504.05118): the mean of -log pi over all tokens of right answers, whatever the denominator is."""
    tokens = case.mask & (case.correct == 1)[:, None]
    each = mu * tokens / max(1, int(tokens.sum()))
    return Term(-each * case.current, -each, np.zeros(each.shape), each)


@part
def drift(case: Case, advantage: Array, share: Share, *, beta: float, estimator: str, to: str) -> Term:
    """Beta z^2, beta z^2/2 or beta |z|, z = log pi - log pi_old or log pi_sampler."""
    z = case.current - (case.logp_old if to == "old" else case.logp_sampler)
    value, slope = {"square": (z * z, 2 * z), "k2": (z * z / 2, z), "abs": (abs(z), np.sign(z))}[estimator]
    each = share(case, case.mask) * beta * case.mask
    size = abs(slope) + abs(case.current) * (estimator != "abs")
    return Term(each * value, each * slope, np.zeros(z.shape), each * size)


@part
def sequence_drift(case: Case, advantage: Array, share: Share, *, tau: float) -> Term:
    """Kimi k1.5 (arXiv:2501.12599, eq. 3): tau/2 times the square of a response's sum, shared by its tokens."""
    z = np.where(case.mask, case.current - case.logp_old, 0.0)
    whole, each = z.sum(1, keepdims=True), share(case, case.mask) * case.mask
    size = abs(z).sum(1, keepdims=True) + abs(case.current) + abs(case.logp_old)
    return Term(each * tau / 2 * z * whole, each * tau * whole, np.zeros(z.shape), each * tau * size * (1 + abs(z)))


@part
def cov_penalty(case: Case, advantage: Array, share: Share, *, fraction: float, beta: float, scope: str) -> Term:
    """KL-Cov (arXiv:2505.22617): beta |z| on the floor(k N) tokens, at least one, of the largest covariance above 0."""
    chosen = np.zeros(case.mask.shape, dtype=bool)
    for pool in pools(case, case.mask, scope):
        cov = covariance(case, advantage, pool)
        count = max(1, int(fraction * pool.sum() + 1e-9))
        candidates = sorted(cov[pool & (cov > 0)], reverse=True)[:count]
        chosen |= pool & (cov >= (candidates or [math.inf])[-1])
    apart = case.current - case.logp_old
    each = chosen * beta * share(case, case.mask)
    return Term(each * abs(apart), each * np.sign(apart), np.zeros(apart.shape), each * (apart != 0))


@part
def gated_distillation(case: Case, advantage: Array, share: Share, *, coefficient: float, beta: float) -> Term:
    """SDAR (arXiv:2605.15155; ZJU-REAL/SDAR@8b85c23 sdar_utils.py:14-52): sg[sigmoid(beta gap)] gap of each token.

    Gap is log p_teacher - log p, meant over all tokens as the loss is.
    """
    gap = case.logp_teacher - case.current
    each = share(case, case.mask) * coefficient * case.mask / (1 + np.exp(-beta * gap))
    rounding = 1 + beta * (abs(case.logp_teacher) + abs(case.current))
    return Term(each * gap, -each, np.zeros(gap.shape), each * rounding * (1 + abs(gap)))


@part
def observation_nll(case: Case, selected: Flags, *, alpha: float) -> Term:
    """ECHO (arXiv:2605.24517; PrimeIntellect-ai/prime-rl@559b447, loss.py:246-259 and 394, algo/echo.py:41-90).

    Alpha times the mean of -log p over what the environment wrote behind the policy's first token, in the rows [N] that
    are trained on.
    """
    observed = np.zeros(case.mask.shape, dtype=bool)
    for row, writers in enumerate(case.writer.tolist()):
        first = writers.index(Writer.POLICY) if Writer.POLICY in writers else len(writers)
        observed[row, first:] = (case.writer[row, first:] == Writer.ENVIRONMENT) & selected[row]
    each = observed * alpha / max(1, observed.sum())
    return Term(-each * np.where(observed, case.current, 0.0), -each, np.zeros(each.shape), each)


# ---- 10: passes ------------------------------------------------------------------------------------------------------


@part
def single_pass(case: Case) -> Sequence[Flags]:
    """All tokens once."""
    return [np.ones_like(case.mask)]


@part
def epochs(case: Case, *, count: int) -> Sequence[Flags]:
    """All tokens several times."""
    return [np.ones_like(case.mask)] * count


@part
def lopti(case: Case, *, eta: float, portion: float | None, order: str) -> Sequence[Flags]:
    """Lopti (arXiv:2505.12929, Algorithm 1): p_old < eta (all if 1), or below a quantile of p_old; then the others.

    What an environment wrote has no p_old and is among the others.
    """
    probability = np.exp(case.logp_old)
    boundary = eta
    if portion is not None and case.mask.any():
        boundary = quantile(probability[case.mask], portion)
    low = case.mask & ((probability < boundary) | (portion is None and eta == 1))
    high = ~low
    return [high, low] if order == "high_first" else [low, high]
