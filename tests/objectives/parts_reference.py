"""The references of the parts in `objectives/parts`, each written from its equation; see `reference`."""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from tests.objectives.batches import Array, Case, Flags
from tests.objectives.reference import Reference, Share, Term, groups, per_token

# ---- 1 and 2: rewards and selection ----------------------------------------------------------------------------------


def soft_overlong(limit: int | None = None, cache: float | None = None) -> Callable[[Case], Array]:
    """DAPO eq. 13: 0 up to L - C, then falling linearly to -1 at L, of the lengths that the batch has."""

    def shaping(case: Case) -> Array:
        longest = limit or case.max_length
        over = cache or longest / 5
        return np.array([min(0.0, max(-1.0, (longest - over - length) / over)) for length in case.length.tolist()])

    return shaping


def kl_reward(beta: float, to_go: bool = False) -> Callable[[Case], Array]:
    """-beta times the sum of log pi_old / pi_ref over the response, or over the token and those after it."""

    def shaping(case: Case) -> Array:
        divergence = np.where(case.mask, case.logp_old - case.logp_ref, 0.0)
        if not to_go:
            return -beta * divergence.sum(1)
        left = [[row[t:].sum() for t in range(len(row))] for row in divergence]
        return -beta * np.array(left)

    return shaping


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


# ---- 3 and 4: advantages and weights ---------------------------------------------------------------------------------


def group_center(case: Case, reward: Array) -> tuple[Array, Array]:
    """R - mean over all rows of the group; exactly 0 where the rewards are equal."""
    result, size = np.zeros(len(reward)), np.zeros(len(reward))
    for rows in groups(case):
        peers = reward[rows]
        if not (peers == peers[0]).all():
            mean = peers.sum() / len(peers)
            result[rows], size[rows] = peers - mean, abs(peers) + abs(mean)
    return result, np.where(result == 0, 0.0, size)


def group_norm(case: Case, reward: Array, eps: float = 1e-6) -> tuple[Array, Array]:
    """(R - mean) / (std + eps), ddof 1, over all rows of the group."""
    centred, size = group_center(case, reward)
    deviation = np.zeros(len(reward))
    for rows in groups(case):
        deviation[rows] = math.sqrt((centred[rows] ** 2).sum() / (rows.sum() - 1))
    return centred / (deviation + eps), size / (deviation + eps)


def global_norm(over: str = "tokens") -> Callable[[Case, Array], tuple[Array, Array]]:
    """(R - mean) / std, ddof 0, over the tokens or the rows that are there."""

    def advantage(case: Case, reward: Array) -> tuple[Array, Array]:
        return _over_deviation(case, per_token(case, reward), over, shift=True)

    return advantage


def center_then_global_norm(over: str = "rows") -> Callable[[Case, Array], tuple[Array, Array]]:
    """(R - mean_group) / std over the batch; over tokens, whose mean is not 0, that is taken off as well."""

    def advantage(case: Case, reward: Array) -> tuple[Array, Array]:
        centred, _ = group_center(case, reward)
        return _over_deviation(case, per_token(case, centred), over, shift=over == "tokens")

    return advantage


def _over_deviation(case: Case, values: Array, over: str, shift: bool) -> tuple[Array, Array]:
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


def sampler_correction(
    cap: float = 2.0, low: float = 0.0, level: str = "token", drop: bool = False
) -> Callable[[Case, Array], Array]:
    """P_old / p_sampler, clamped to [low, cap], or 0 outside."""

    def weight(case: Case, advantage: Array) -> Array:
        ratio = mismatch(case, level)
        return np.where((ratio >= low) & (ratio <= cap), ratio, 0.0) if drop else np.clip(ratio, low, cap)

    return weight


# ---- 5 and 6: ratio and surrogate ------------------------------------------------------------------------------------


def token_ratio(case: Case) -> tuple[Array, Array]:
    """Pi / pi_old, e^20 at most."""
    difference = case.current - case.logp_old
    ratio = np.exp(np.clip(difference, -20.0, 20.0))
    return ratio, np.where(abs(difference) <= 20.0, ratio, 0.0)


def clip(low: float = 0.2, high: float = 0.2, cap: float = math.inf) -> Callable[..., tuple[Array, ...]]:
    """PPO: the minimum of r A and of r A with r clipped, at least c A where A < 0; and its derivative by log pi."""

    def surrogate(case: Case, ratio: Array, slope: Array, advantage: Array) -> tuple[Array, ...]:
        free, bounded = ratio * advantage, np.clip(ratio, 1 - low, 1 + high) * advantage
        value = np.minimum(free, bounded)
        by_logp = np.where(bounded < free, 0.0, slope * advantage)
        if math.isfinite(cap):
            capped = (advantage < 0) & (cap * advantage > value)
            value, by_logp = np.where(capped, cap * advantage, value), np.where(capped, 0.0, by_logp)
        return value, by_logp, abs(by_logp)

    return surrogate


def unclipped(case: Case, ratio: Array, slope: Array, advantage: Array) -> tuple[Array, ...]:
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


def constant_length(length: int | None = None) -> Share:
    """Sum over the tokens over a constant, then mean over responses."""

    def share(case: Case, counted: Flags) -> Array:
        return np.full(counted.shape, 1 / response_count(case) / (length or case.max_length))

    return share


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


def kl(
    beta: float = 0.04, estimator: str = "k3", clamp: float = math.inf, anchor: str = "ref"
) -> Callable[[Case, Array, Share], Term]:
    """The estimate of KL(pi, pi_ref), or to another, of each token, meant over all of them as the loss is."""

    def penalty(case: Case, advantage: Array, share: Share) -> Term:
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

    return penalty


def entropy_bonus(coefficient: float = 0.001) -> Callable[[Case, Array, Share], Term]:
    """Minus the entropy of each token, meant over all of them as the loss is."""

    def penalty(case: Case, advantage: Array, share: Share) -> Term:
        each = share(case, case.mask) * coefficient * case.mask
        entropy = case.current_entropy
        return Term(-each * entropy, np.zeros(entropy.shape), -each, np.zeros(entropy.shape))

    return penalty


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
