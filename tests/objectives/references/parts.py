"""Parts that several methods have, each written from its equation; see `stages`."""

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from tests.objectives.batches import Array, Case, Flags
from tests.objectives.references.stages import Reference, Share, Sized, Term, Terms, groups, per_token, stage

# ---- 1 and 2: rewards and selection ----------------------------------------------------------------------------------


@stage
def soft_overlong(case: Case, *, limit: int | None = None, cache: float | None = None) -> Array:
    """DAPO eq. 13: 0 up to L - C, then falling linearly to -1 at L, of the lengths that the batch has."""
    longest = limit or case.max_length
    over = cache or longest / 5
    return np.array([min(0.0, max(-1.0, (longest - over - length) / over)) for length in case.length.tolist()])


@stage
def kl_reward(case: Case, *, beta: float, to_go=False) -> Array:
    """-beta times the sum of log pi_old / pi_ref over the response, or over the token and those after it."""
    divergence = np.where(case.mask, case.logp_old - case.logp_ref, 0.0)
    if not to_go:
        return -beta * divergence.sum(1)
    left = [[row[t:].sum() for t in range(len(row))] for row in divergence]
    return -beta * np.array(left)


def dynamic_sampling(case: Case) -> Flags:
    """0 < #correct < G, judged by the raw correctness."""
    selected = np.zeros(len(case.reward), dtype=bool)
    for rows in groups(case):
        selected[rows] = len(set(case.correct[rows].tolist())) > 1
    return selected


def dynamic_sampling_by_reward(case: Case) -> Flags:
    """Groups in which some reward differs."""
    selected = np.zeros(len(case.reward), dtype=bool)
    for rows in groups(case):
        selected[rows] = any(len(set(column[rows].tolist())) > 1 for column in case.rewards.T)
    return selected


def overlong_filter(case: Case) -> Flags:
    """Truncated responses are left out."""
    return ~case.truncated


def live_only(case: Case, advantage: Array) -> Flags:
    """Tokens without an advantage are left out."""
    return advantage != 0


# ---- 3 and 4: advantages and weights ---------------------------------------------------------------------------------


def group_center(case: Case, reward: Array) -> Sized:
    """R - mean over all rows of the group; exactly 0 where the rewards are equal."""
    result, size = np.zeros(len(reward)), np.zeros(len(reward))
    for rows in groups(case):
        peers = reward[rows]
        if not (peers == peers[0]).all():
            mean = peers.sum() / len(peers)
            result[rows], size[rows] = peers - mean, abs(peers) + abs(mean)
    return result, np.where(result == 0, 0.0, size)


def group_norm(case: Case, reward: Array, eps: float = 1e-6) -> Sized:
    """(R - mean) / (std + eps), ddof 1, over all rows of the group."""
    centred, size = group_center(case, reward)
    deviation = np.zeros(len(reward))
    for rows in groups(case):
        deviation[rows] = math.sqrt((centred[rows] ** 2).sum() / (rows.sum() - 1))
    return centred / (deviation + eps), size / (deviation + eps)


@stage
def global_norm(case: Case, reward: Array, *, over="tokens") -> Sized:
    """(R - mean) / std, ddof 0, over the tokens or the rows that are there."""
    return _over_deviation(case, per_token(case, reward), over, shift=True)


@stage
def center_then_global_norm(case: Case, reward: Array, *, over="rows") -> Sized:
    """(R - mean_group) / std over the batch; over tokens, whose mean is not 0, that is taken off as well."""
    centred, _ = group_center(case, reward)
    return _over_deviation(case, per_token(case, centred), over, shift=over == "tokens")


def _over_deviation(case: Case, values: Array, over: str, shift: bool) -> Sized:
    weight = case.mask.astype(float)
    if over == "rows":
        weight /= np.maximum(1, case.mask.sum(1, keepdims=True))
    total = weight.sum() or 1.0
    size = abs(values)
    if shift:
        present = values[case.mask]
        if (present == present[:1]).all():
            return np.zeros(values.shape), np.zeros(values.shape)
        values = values - (weight * values).sum() / total
        size = size + (weight * size).sum() / total
    deviation = math.sqrt(max((weight * values**2).sum() / total, 1e-8))
    return values / deviation, size / deviation


def mismatch(case: Case, level: str) -> Array:
    """P_old / p_sampler of each token, of the response's product, or of its geometric mean."""
    ratio = np.exp(np.clip(case.logp_old - case.logp_sampler, -20, 20))
    if level != "token":
        for row, tokens in enumerate(case.mask):
            total = np.log(ratio[row, tokens]).sum()
            ratio[row] = np.exp(np.clip(total / (max(1, tokens.sum()) if level == "geometric" else 1), -20, 20))
    return ratio


@stage
def sampler_correction(case: Case, advantage: Array, *, cap=2.0, low=0.0, level="token", drop=False) -> Array:
    """P_old / p_sampler, clamped to [low, cap], or 0 outside."""
    ratio = mismatch(case, level)
    return np.where((ratio >= low) & (ratio <= cap), ratio, 0.0) if drop else np.clip(ratio, low, cap)


# ---- 5 and 6: ratio and surrogate ------------------------------------------------------------------------------------


def token_ratio(case: Case) -> Sized:
    """Pi / pi_old, e^20 at most."""
    difference = case.current - case.logp_old
    ratio = np.exp(np.clip(difference, -20.0, 20.0))
    return ratio, np.where(abs(difference) <= 20.0, ratio, 0.0)


@stage
def clip(case: Case, ratio: Array, slope: Array, advantage: Array, *, low=0.2, high=0.2, cap=math.inf) -> Terms:
    """PPO: the minimum of r A and of r A with r clipped, at least c A where A < 0; and its derivative by log pi."""
    free, bounded = ratio * advantage, np.clip(ratio, 1 - low, 1 + high) * advantage
    value = np.minimum(free, bounded)
    by_logp = np.where(bounded < free, 0.0, slope * advantage)
    if math.isfinite(cap):
        capped = (advantage < 0) & (cap * advantage > value)
        value, by_logp = np.where(capped, cap * advantage, value), np.where(capped, 0.0, by_logp)
    return value, by_logp, abs(by_logp)


def unclipped(case: Case, ratio: Array, slope: Array, advantage: Array) -> Terms:
    """R A."""
    return ratio * advantage, slope * advantage, abs(slope * advantage)


# ---- 8: denominators -------------------------------------------------------------------------------------------------


def response_count(case: Case) -> int:
    """Responses with a token, at least one."""
    return max(1, int(case.mask.any(1).sum()))


def seq_mean(case: Case, counted: Flags) -> Array:
    """Mean over the tokens of each response, then over responses."""
    return per_token(case, 1 / response_count(case) / np.maximum(1, counted.sum(1)))


def seq_sum(case: Case, counted: Flags) -> Array:
    """Sum over the tokens of each response, then mean over responses."""
    return np.full(counted.shape, 1 / response_count(case))


@stage
def constant_length(case: Case, counted: Flags, *, length: int | None = None) -> Array:
    """Sum over the tokens over a constant, then mean over responses."""
    return np.full(counted.shape, 1 / response_count(case) / (length or case.max_length))


def token_mean(case: Case, counted: Flags) -> Array:
    """Mean over all tokens."""
    return np.full(counted.shape, 1 / max(1, int(counted.sum())))


def prompt_mean(case: Case, counted: Flags) -> Array:
    """Mean over the tokens of each prompt, then over the prompts that are there."""
    share = np.zeros(counted.shape)
    prompts = max(1, sum(bool(case.mask[rows].any()) for rows in groups(case)))
    for rows in groups(case):
        share[rows] = 1 / prompts / max(1, int(counted[rows].sum()))
    return share


def micro_batch_mean(case: Case, counted: Flags) -> Array:
    """Mean over the tokens of each micro-batch, weighted by its responses."""
    share = np.zeros(counted.shape)
    for number in set(case.micro_batch.tolist()):
        rows = case.micro_batch == number
        share[rows] = case.mask[rows].any(1).sum() / response_count(case) / max(1, int(counted[rows].sum()))
    return share


# ---- 9: penalties ----------------------------------------------------------------------------------------------------


@stage
def kl(case: Case, advantage: Array, share: Share, *, beta=0.04, estimator="k3", clamp=math.inf, anchor="ref") -> Term:
    """The estimate of KL(pi, pi_ref), or to another, of each token, meant over all of them as the loss is."""
    difference = getattr(case, f"logp_{anchor}") - case.current
    x = np.clip(difference, -clamp, clamp)
    size = abs(x) + 1
    if estimator == "k1":
        value, slope = -x, np.ones(x.shape)
    elif estimator == "k2":
        value, slope, size = x * x / 2, -x, x * x / 2 + abs(x)
    else:
        value, slope, size = np.exp(x) - x - 1, 1 - np.exp(x), np.exp(x) + abs(x) + 1
    if math.isfinite(clamp):
        slope = np.where((abs(difference) <= clamp) & (abs(value) <= 10), slope, 0.0)
        value = np.clip(value, -10, 10)
    each = share(case, case.mask) * beta * case.mask
    return Term(each * value, each * slope, np.zeros(x.shape), each * size)


@stage
def entropy_bonus(case: Case, advantage: Array, share: Share, *, coefficient=0.001) -> Term:
    """Minus the entropy of each token, meant over all of them as the loss is."""
    each = share(case, case.mask) * coefficient * case.mask
    entropy = case.current_entropy
    return Term(-each * entropy, np.zeros(entropy.shape), -each, np.zeros(entropy.shape))


# ---- what many share -------------------------------------------------------------------------------------------------


def quantile(values: Array, q: str) -> float:
    """The q-quantile, interpolated linearly, its position calculated exactly."""
    ordered = sorted(values.tolist())
    position = Fraction(q) * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + float(position - below) * (ordered[above] - ordered[below])


def clipped(**stages: Any) -> Reference:
    """The clipped surrogate with z-scored advantages and the mean over all tokens, but for the given stages."""
    usual: Mapping[str, Any] = {
        "advantage": group_norm,
        "ratio": token_ratio,
        "surrogate": clip(high=0.28),
        "share": token_mean,
    }
    return Reference(**{**usual, **stages})


def reinforce(case: Case, ratio: Array, slope: Array, advantage: Array) -> Terms:
    """A, and as derivative by log pi the same, whatever the ratio."""
    each = np.broadcast_to(advantage, ratio.shape)
    return each, each, abs(each)


@stage
def cispo(case: Case, ratio: Array, slope: Array, advantage: Array, *, low=1.0, high=4.0) -> Terms:
    """W A, and its derivative by log pi, which is the same."""
    weighted = np.minimum(np.maximum(ratio, 1 - low), 1 + high) * advantage
    return weighted, weighted, abs(weighted)


@stage
def reweighting(case: Case, advantage: Array, *, alpha: float) -> Array:
    """Alpha p_old + 1 - alpha."""
    return alpha * np.exp(case.logp_old) + (1 - alpha)


@stage
def sequence_ratio(case: Case, *, mean=True) -> Sized:
    """Exp of the mean, or of the sum, of log pi - log pi_old over the response."""
    total = (np.clip(case.current - case.logp_old, -20, 20) * case.mask).sum(1)
    tokens = np.maximum(1, case.mask.sum(1)) if mean else 1
    result = per_token(case, np.exp(np.clip(total / tokens, -20, 20)))
    return result, result


@stage
def drift(case: Case, advantage: Array, share: Share, *, beta: float, estimator="k2", to="old") -> Term:
    """Beta z^2, beta z^2/2 or beta |z|, z = log pi - log pi_old or log pi_sampler."""
    z = case.current - (case.logp_old if to == "old" else case.logp_sampler)
    value, slope = {"square": (z * z, 2 * z), "k2": (z * z / 2, z), "abs": (abs(z), np.sign(z))}[estimator]
    each = share(case, case.mask) * beta * case.mask
    size = abs(slope) + abs(case.current) * (estimator != "abs")
    return Term(each * value, each * slope, np.zeros(z.shape), each * size)
