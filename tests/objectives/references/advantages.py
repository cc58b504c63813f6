"""The first four stages: rewards, selection, advantages and weights, each from its equation."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np

from tests.objectives.batches import Array, Case, Flags
from tests.objectives.references.stages import Sized, groups, log_change, part, per_token, pools, quantile

# ---- 1: rewards ------------------------------------------------------------------------------------------------------


@part
def soft_overlong(case: Case, *, max_length: int | None, cache: float | None) -> Array:
    """DAPO eq. 13: 0 up to L - C, then falling linearly to -1 at L, of the lengths that the batch has."""
    longest = max_length or case.max_length
    over = cache or longest / 5
    return np.array([min(0.0, max(-1.0, (longest - over - length) / over)) for length in case.length.tolist()])


@part
def kl_reward(case: Case, *, beta: float, to_go: bool) -> Array:
    """-beta times the sum of log pi_old / pi_ref over the response, or over the token and those after it."""
    divergence = np.where(case.mask, case.logp_old - case.logp_ref, 0.0)
    if not to_go:
        return -beta * divergence.sum(1)
    left = [[row[t:].sum() for t in range(len(row))] for row in divergence]
    return -beta * np.array(left)


# ---- 2: selection ----------------------------------------------------------------------------------------------------


@part
def dynamic_sampling(case: Case) -> Flags:
    """0 < #correct < G, judged by the raw correctness."""
    selected = np.zeros(len(case.reward), dtype=bool)
    for rows in groups(case):
        selected[rows] = len(set(case.correct[rows].tolist())) > 1
    return selected


@part
def dynamic_sampling_by_reward(case: Case) -> Flags:
    """Groups in which some reward differs."""
    selected = np.zeros(len(case.reward), dtype=bool)
    for rows in groups(case):
        selected[rows] = any(len(set(column[rows].tolist())) > 1 for column in case.rewards.T)
    return selected


@part
def overlong_filter(case: Case) -> Flags:
    """Truncated responses are left out."""
    return ~case.truncated


@part
def answer_filter(case: Case, *, keep: str) -> Flags:
    """PSR and NSR (arXiv:2506.01347): answers that are right in full, or all others."""
    return {"right": case.correct == 1, "wrong": case.correct < 1, "all": case.correct < 2}[keep]


@part
def live_only(case: Case, advantage: Array) -> Flags:
    """Tokens without an advantage are left out."""
    return advantage != 0


@part
def extreme_pairs(case: Case, *, share: float) -> Flags:
    """Shuffle-R1 (arXiv:2508.05612): of the responses sorted by reward, the outermost, as many good as bad.

    Equal rewards are in the order of their smallest random key.
    """
    selected = case.mask.any(1) & False
    keys = [min(key[there].tolist(), default=math.inf) for key, there in zip(case.random_key, case.mask, strict=True)]
    for rows in groups(case):
        order = sorted(rows.nonzero()[0].tolist(), key=lambda row: (-case.reward[row], keys[row]))
        pairs = list(zip(order, reversed(order), strict=True))[: len(order) // 2]
        for pair in pairs[: math.floor(share * len(pairs))]:
            selected[list(pair)] = True
    return selected


# ---- 3: advantages ---------------------------------------------------------------------------------------------------


@part
def group_center(case: Case, reward: Array) -> Sized:
    """R - mean over all rows of the group; exactly 0 where the rewards are equal."""
    result, size = np.zeros(len(reward)), np.zeros(len(reward))
    for rows in groups(case):
        peers = reward[rows]
        if not (peers == peers[0]).all():
            mean = peers.sum() / len(peers)
            result[rows], size[rows] = peers - mean, abs(peers) + abs(mean)
    return result, np.where(result == 0, 0.0, size)


@part
def group_norm(case: Case, reward: Array, *, eps: float) -> Sized:
    """GRPO: (R - mean) / (std + eps), ddof 1, over all rows of the group."""
    centred, size = group_center(case, reward)
    deviation = np.zeros(len(reward))
    for rows in groups(case):
        deviation[rows] = math.sqrt((centred[rows] ** 2).sum() / (rows.sum() - 1))
    return centred / (deviation + eps), size / (deviation + eps)


@part
def population_norm(case: Case, reward: Array) -> Sized:
    """TPO: (R - mean) / std with ddof 0 over all rows of the group."""
    centred, size = group_center(case, reward)
    deviation = np.ones(len(reward))
    for rows in groups(case):
        deviation[rows] = math.sqrt((centred[rows] ** 2).sum() / rows.sum()) or 1.0
    return centred / deviation, size / deviation


@part
def global_norm(case: Case, reward: Array, *, over: str) -> Sized:
    """REINFORCE++: (R - mean) / std, ddof 0, over the tokens or the rows that are there."""
    return _over_deviation(case, per_token(case, reward), over, shift=True)


@part
def center_then_global_norm(case: Case, reward: Array, *, over: str) -> Sized:
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


@part
def center_batch_std(case: Case, reward: Array, *, eps: float) -> Sized:
    """Lite PPO (arXiv:2508.08221): R - mean_group, over the std (ddof 1) of all rewards in groups that are there."""
    centred, size = group_center(case, reward)
    there = reward[np.isin(case.group, case.group[case.mask.any(1)])]
    deviation = math.sqrt(((there - there.sum() / max(1, len(there))) ** 2).sum() / max(1, len(there) - 1)) + eps
    return centred / deviation, size / deviation


@part
def leave_one_out(case: Case, reward: Array) -> Sized:
    """RLOO (arXiv:2402.14740): R - mean of the others, each by itself; exactly 0 where the rewards are equal."""
    result, size = np.zeros(len(reward)), np.zeros(len(reward))
    for rows in groups(case):
        if len(set(reward[rows].tolist())) == 1:
            continue
        for i in rows.nonzero()[0]:
            others = reward[rows & (np.arange(len(reward)) != i)]
            baseline = others.sum() / len(others)
            result[i], size[i] = reward[i] - baseline, abs(reward[i]) + abs(others).sum() / len(others)
    return result, size


@part
def raw_reward(case: Case, reward: Array) -> Sized:
    """The reward."""
    return reward, abs(reward)


@part
def no_reward(case: Case, reward: Array) -> Sized:
    """Nothing."""
    return 0 * reward, 0 * reward


@part
def optimal_baseline(case: Case, reward: Array) -> Sized:
    """OPO (arXiv:2505.23585): R - sum |y| R / sum |y| over all rows of the group."""
    result, size = np.zeros(len(reward)), np.zeros(len(reward))
    length = case.mask.sum(1)
    for rows in groups(case):
        peers, weight = reward[rows], length[rows] / max(1, length[rows].sum())
        if not (peers == peers[0]).all():
            result[rows] = peers - (weight * peers).sum()
            size[rows] = abs(peers) + abs(peers).sum() / len(peers) + (weight * abs(peers)).sum()
    return result, size


@part
def optimal_token_baseline(case: Case, reward: Array, *, alone: str) -> Sized:
    """OTB (arXiv:2602.07078): R - sum_j W_jt R_j / sum_j W_jt over the t-th tokens of a group.

    W is the sum up to t of 1 - 2 pi + sum of pi^2. A token alone is worth 0, or the reward.
    """
    result, size = np.zeros(case.mask.shape), np.zeros(case.mask.shape)
    step = np.maximum(1 - 2 * np.exp(case.logp_old) + case.sum_pi_squared_old, 0.0)
    for rows in groups(case):
        members = np.flatnonzero(rows)
        at = {row: np.flatnonzero(case.mask[row]) for row in members}
        equal = len(set(reward[rows].tolist())) == 1
        for t in range(case.mask.shape[1]):
            here = [row for row in members if t < len(at[row])]
            places = [at[row][t] for row in here]
            if len(here) == 1:
                worth = 0.0 if alone == "baseline" else reward[here[0]]
                result[here[0], places[0]] = size[here[0], places[0]] = worth
            elif here and not equal:
                w = np.array([step[row, at[row][: t + 1]].sum() for row in here])
                r, mean = reward[here], reward[rows].mean()
                base = (w * r).sum() / w.sum() if w.sum() else mean
                result[here, places] = r - base
                size[here, places] = abs(r) + abs(mean) + abs(r).max()
    return result, abs(size)


@part
def scaled_center(case: Case, reward: Array, *, eps: float, counts: str) -> Sized:
    """GPG (arXiv:2504.02546): (R - mean) B / (B - M), M rows in groups of equal rewards; verl: M rows of reward 0."""
    there, counted = 0, 0
    for rows in groups(case):
        if case.mask[rows].any():
            peers = reward[rows].tolist()
            there += len(peers)
            is_rewarded, differs = sum(value != 0 for value in peers), len(peers) * (len(set(peers)) > 1)
            counted += is_rewarded if counts == "rewarded" else differs
    share = max(1, counted) / max(1, there) + eps
    centred, size = group_center(case, reward)
    return centred / share, size / share


@part
def decoupled_norm(case: Case, reward: Array, *, eps: float, over: str) -> Sized:
    """GDPO (arXiv:2601.05242): the sum of the z-scores of all rewards, over its deviation in the batch.

    Over tokens (verl-project/verl@1dda039 core_algos.py:362-466): whitened over the tokens.
    """
    parts = [group_norm(case, column, eps=eps) for column in case.rewards.T]
    total, size = sum(value for value, _ in parts), sum(size for _, size in parts)
    if over == "tokens":
        count = case.mask.sum(1)
        mean = (count * total).sum() / max(1, count.sum())
        present = total[count > 0]
        equal = len(present) == 0 or (present == present[0]).all()
        total = np.zeros(len(total)) if equal else total - mean
        size = np.zeros(len(total)) if equal else size + (count * size).sum() / count.sum()
        variance = (count * total**2).sum() / max(1, count.sum() - 1)
        return total / math.sqrt(variance + 1e-8), size / math.sqrt(variance + 1e-8)
    there = np.isin(case.group, case.group[case.mask.any(1)])
    deviation = math.sqrt((total[there] ** 2).sum() / max(1, there.sum() - 1)) + eps
    return total / deviation, np.where(total == 0, 0.0, size / deviation)


@part
def mean_norm(case: Case, reward: Array, *, eps: float) -> Sized:
    """MaxRL (arXiv:2602.02710): correctness less its mean, over that mean; whatever the rewards."""
    result, size = np.zeros(len(reward)), np.zeros(len(reward))
    for rows in groups(case):
        peers = case.correct[rows]
        if len(set(peers.tolist())) > 1:
            mean = peers.sum() / len(peers)
            result[rows], size[rows] = (peers - mean) / (mean + eps), (peers + mean) / (mean + eps)
    return result, size


@cache
def of_responses(right: tuple[bool, ...], k: int) -> list[tuple[float, float]]:
    """Pass@k's advantage of each response, and its size; the sets are gone through one by one."""
    sets = list(combinations(range(len(right)), min(k, len(right))))
    passed = [any(right[i] for i in chosen) for chosen in sets]
    rho = sum(passed) / len(sets)
    deviation = math.sqrt(rho * (1 - rho)) + 1e-6
    own = [[p for p, chosen in zip(passed, sets, strict=True) if i in chosen] for i in range(len(right))]
    if len(set(passed)) == 1:
        return [(0.0, 0.0)] * len(right)
    return [((sum(p) / len(p) - rho) / deviation, (sum(p) / len(p) + rho) / deviation) for p in own]


@part
def pass_at_k(case: Case, reward: Array, *, k: int) -> Sized:
    """Pass@k training (arXiv:2508.10751): z-scored pass@k of every set of k responses, meant over a response's sets."""
    result, size = np.zeros(len(reward)), np.zeros(len(reward))
    for rows in groups(case):
        found = of_responses(tuple(bool(value == 1) for value in case.correct[rows]), k)
        result[rows], size[rows] = np.array(found).T
    return result, size


def smallest(values: Array, q: float) -> float:
    """The smallest value x such that a share q of them is at most x."""
    shares = {x: Fraction(int((values <= x).sum()), len(values)) for x in values.tolist()}
    return min(x for x, share in shares.items() if share >= Fraction(str(q)))


@part
def quantile_norm(case: Case, reward: Array, *, q: float, kind: str, eps: float) -> Sized:
    """QAE (arXiv:2509.22611): R less the quantile, over the deviation with ddof 1; 0 where the rewards are equal."""
    of: Callable[[Array, float], float] = {"lower": smallest, "linear": quantile}[kind]
    result, size = np.zeros(len(reward)), np.zeros(len(reward))
    for rows in groups(case):
        peers = reward[rows]
        if not (peers == peers[0]).all():
            baseline, deviation = of(peers, q), peers.std(ddof=1) + eps
            result[rows], size[rows] = (peers - baseline) / deviation, (abs(peers) + abs(baseline)) / deviation
    return result, size


@part
def agpo(case: Case, reward: Array, *, eps: float) -> Sized:
    """AGPO (arXiv:2503.15952): the z-score, or 1 and -1 where a group is right or wrong as a whole."""
    result, size = group_norm(case, reward, eps=eps)
    for rows in groups(case):
        if len(set(reward[rows].tolist())) == 1 and len(set(case.correct[rows].tolist())) == 1:
            result[rows] = {1.0: 1.0, 0.0: -1.0}.get(case.correct[rows][0], 0.0)
            size[rows] = abs(result[rows])
    return result, size


@part
def signed_reward(case: Case, reward: Array, *, right: float, wrong: float) -> Sized:
    """One of two numbers for answers that are right in full and others, whatever the rewards."""
    values = np.array([right if correct == 1 else wrong for correct in case.correct.tolist()])
    return values, abs(values)


@part
def token_group_norm(case: Case, reward: Array, *, eps: float, guard: float) -> Sized:
    """HAPO (arXiv:2509.16591): (R - mean) / (std + eps), ddof 0, over tokens; group_norm where an |A| is >= guard."""
    result, size = group_norm(case, reward, eps=eps)
    _, scale = group_center(case, reward)
    for rows in groups(case):
        there = rows & case.mask.any(1)
        values = np.repeat(reward[there], case.mask.sum(1)[there])
        if len(values) == 0:
            continue
        centred = reward - values.sum() / len(values)
        centred[abs(centred) < 1e-9] = 0.0
        deviation = math.sqrt(((values - values.sum() / len(values)) ** 2).sum() / len(values))
        found = np.where(centred == 0, 0.0, centred / (deviation + eps))
        if (abs(found[there]) < guard).all():
            result[rows] = found[rows]
            size[rows] = ((scale + abs(reward)) / (deviation + eps) * (found != 0))[rows]
    return result, size


# ---- 4: weights: factors ---------------------------------------------------------------------------------------------


def mismatch(case: Case, level: str) -> Array:
    """P_old / p_sampler of each token, of the response's product, or of its geometric mean."""
    ratio = np.exp(np.clip(case.logp_old - case.logp_sampler, -20, 20))
    if level != "token":
        for row, tokens in enumerate(case.mask):
            total = np.log(ratio[row, tokens]).sum()
            ratio[row] = np.exp(np.clip(total / (max(1, tokens.sum()) if level == "geometric" else 1), -20, 20))
    return ratio


@part
def sampler_correction(
    case: Case, advantage: Array, *, cap: float | None, low: float, level: str, outside: str
) -> Array:
    """P_old / p_sampler, clamped to [low, cap], or 0 outside."""
    ratio, cap = mismatch(case, level), math.inf if cap is None else cap
    return np.where((ratio >= low) & (ratio <= cap), ratio, 0.0) if outside == "drop" else np.clip(ratio, low, cap)


@part
def advantage_reweighting(case: Case, advantage: Array, *, alpha: float) -> Array:
    """Advantage Reweighting (arXiv:2505.12929, eq. 4): alpha p_old + 1 - alpha."""
    return alpha * np.exp(case.logp_old) + (1 - alpha)


@part
def surprisal_reweighting(case: Case, advantage: Array, at: Any) -> Array:
    """STARE (arXiv:2606.19236): W and M on the ceil(P n) most surprising of the n tokens of each sign, ties included.

    Only while H_old < target.
    """
    result = np.ones(advantage.shape)
    entropy = case.entropy_old[case.mask]
    if at.target_entropy is not None and len(entropy) and not entropy.sum() / len(entropy) < at.target_entropy:
        return result
    surprisal = -(case.logp_old if at.source == "old" else case.current)
    for sign, factor in ((1, at.amplify), (-1, at.attenuate)):
        for pool in pools(case, case.mask & (sign * advantage > 0), at.scope):
            count = min(int(pool.sum()), max(1, int(pool.sum() * at.fraction + 0.999999))) if at.fraction else 0
            if count:
                boundary = sorted(surprisal[pool], reverse=True)[count - 1]
                result[pool & (surprisal >= boundary)] = factor
    return result


@part
def delight(case: Case, advantage: Array, *, eta: float) -> Array:
    """DG (arXiv:2603.14608; JeanKaddour/tpo@73473b9, src/tpo/algorithms.py:219-234): sigma(A l / eta)."""
    return np.exp(-np.logaddexp(0.0, advantage * case.current / eta))


@part
def future_kl(case: Case, advantage: Array, at: Any) -> Array:
    """FIPO (arXiv:2603.19835): exp of the discounted log-ratios from the token on, term by term, in [low, high].

    Over the tokens that the loss sees. Ratios above cap have no say; at most 1 where A < 0 and r > safe.
    """
    result = np.ones(case.mask.shape)
    change = log_change(case)
    for row, mask in enumerate(case.mask):
        z = change[row, mask]
        for n, t in enumerate(mask.nonzero()[0]):
            terms = [0.5 ** ((s - n) / at.half_life) * z[s] for s in range(n, len(z)) if np.exp(z[s]) <= at.cap]
            factor = np.clip(np.exp(sum(terms)), at.low, at.high)
            bad = advantage[row, t] < 0 and np.exp(z[n]) > at.safe
            result[row, t] = min(factor, 1.0) if bad else factor
    return result


def height(case: Case, scope: str, rho: float, sign: str) -> Array:
    """[N, T] HAPO's h: log H less its value of nearest rank at rho, over its largest value above, its size below."""
    result = np.zeros(case.mask.shape)
    for pool in pools(case, case.mask, scope):
        entropy = np.log(np.maximum(case.current_entropy[pool], 1e-8))
        ordered = sorted(entropy.tolist())
        if sign == "lost":  # the code: starriver030515/HAPO@7671dde, verl/trainer/ppo/core_algos.py:82-125
            h = entropy - ordered[round(rho * (len(entropy) - 1))]
            result[pool] = np.where(h > 0, h / (h.max() or 1.0), h / (h.min() or 1.0))
            continue
        h = entropy - ordered[math.ceil(rho * len(entropy) - 1e-9) - 1]
        result[pool] = np.where(h > 0, h / (h.max() or 1.0), h / (-h.min() or 1.0))
    return result


def widths(h: Array, alpha: float, low: float, high: float) -> Sized:
    """[N, T] HAPO's widths below and above."""
    return low * (1 - alpha * np.minimum(h, 0)), high * (1 + alpha * np.maximum(h, 0))


@part
def zone_reweighting(case: Case, advantage: Array, at: Any) -> Array:
    """HAPO: 1 + beta h of unsure tokens outside the half widths, and of sure ones inside."""
    h, ratio = height(case, at.scope, at.rho, at.sign), np.exp(log_change(case))
    below, above = widths(h, at.alpha, at.low, at.high)
    inside = (ratio > 1 - below / 2) & (ratio < 1 + above / 2)
    return np.where(np.where(h > 0, ~inside, inside), 1 + at.beta * h, 1.0)


@part
def positive_reweighting(case: Case, advantage: Array, at: Any) -> Array:
    """Positive-advantage reweighting (arXiv:2511.05993): lambda of the first step where A > 0."""
    weight = at.start
    if at.target_entropy is not None and case.mask.any():
        entropy = case.entropy_old[case.mask].sum() / case.mask.sum()
        weight = min(1.0, max(0.0, at.start + at.step * np.sign(entropy - at.target_entropy)))
    return np.where(advantage > 0, weight, 1.0)


@part
def perplexity_weight(case: Case, advantage: Array, *, alpha: float, width: float) -> Array:
    """Perplexity shaping (arXiv:2508.02260): clip(1 - alpha z, 1 - width, 1 + width), z of log-perplexities.

    z is by the mean and the deviation (ddof 0) of what is no further than 1.5 quartile distances beyond the quartiles.
    """
    score = np.zeros(len(case.group))
    there = case.mask.any(1)
    for rows in groups(case):
        rows = rows & there
        if not rows.any():
            continue
        surprise = np.array([-case.logp_old[row][case.mask[row]].mean() for row in rows.nonzero()[0]])
        low, high = quantile(surprise, "0.25"), quantile(surprise, "0.75")
        usual = surprise[(surprise >= low - 1.5 * (high - low)) & (surprise <= high + 1.5 * (high - low))]
        deviation = usual.std()
        score[rows] = (surprise - usual.mean()) / (deviation if deviation > 1e-6 else 1.0)
    return np.clip(1 - alpha * score, 1 - width, 1 + width)[:, None]


@part
def evidence_reweighting(case: Case, advantage: Array, *, mix: float, width: float, steps: int, source: str) -> Array:
    """RLSD (arXiv:2604.03128 Algorithm 1) in its first step: 1 - m + m clip((p_teacher / p)^sign(A), 1 -+ eps)."""
    gain = case.logp_teacher - (case.current if source == "current" else case.logp_old)
    likelier = np.exp(np.where(advantage < 0, -gain, gain))
    return np.where(advantage == 0, 1.0, 1 - mix + mix * np.clip(likelier, 1 - width, 1 + width))


# ---- 4: weights: summands --------------------------------------------------------------------------------------------


@part
def position_bonus(case: Case, advantage: Array, *, gamma: float, slope: float) -> Sized:
    """Position shaping (arXiv:2508.02260): sign(A) min(gamma sigmoid(slope (s - 1/2)), |A| / 2), s the place."""
    added = np.zeros(case.mask.shape)
    for row, tokens in enumerate(case.mask):
        places = tokens.nonzero()[0]
        for before, t in enumerate(places):
            bonus = gamma / (1 + np.exp(-slope * (before / len(places) - 0.5)))
            added[row, t] = np.sign(advantage[row, t]) * min(bonus, abs(advantage[row, t]) / 2)
    return added, abs(added)


@part
def entropy_advantage(case: Case, advantage: Array, *, alpha: float, kappa: float, source: str) -> Sized:
    """Entropy advantage (arXiv:2506.14758): min(alpha H, |A| / kappa)."""
    entropy = case.entropy_old if source == "old" else case.current_entropy
    added = np.minimum(alpha * entropy, abs(advantage) / kappa)
    return added, added


def confidence(logp: Array, fraction: float) -> float:
    """Of one response's [t] log-probs the geometric mean of the least probable."""
    count = max(1, math.ceil(Fraction(str(fraction)) * len(logp)))
    return math.exp(math.fsum(sorted(logp.tolist())[:count]) / count)


@part
def confidence_shift(case: Case, advantage: Array, *, alpha: float, fraction: float, groups: str) -> Sized:
    """ARM (arXiv:2602.05281): alpha (c(q) - c(o)) in groups whose rewards differ.

    C(o) is the geometric mean of the probabilities of the least probable tokens, c(q) that of the prompt's.
    """
    added, size = np.zeros(case.mask.shape), np.zeros(case.mask.shape)
    for name in set(case.group.tolist()):
        rows = case.group == name
        there = [row for row in np.flatnonzero(rows) if case.mask[row].any()]
        mixed = (advantage[there] * case.mask[there]).any()
        if not ((case.correct[rows] == 1).any() if groups == "any_right" else mixed):
            continue
        for row in there:
            c_prompt = math.exp(case.logp_prompt[row])
            c_response = confidence(case.logp_old[row, case.mask[row]], fraction)
            added[row] = alpha * (c_prompt - c_response)
            size[row] = alpha * (c_prompt + c_response)
    return added, size


@part
def teacher_advantage(case: Case, advantage: Array, *, coefficient: float, source: str, clamp: float | None) -> Sized:
    """On-policy distillation: coefficient (log p_teacher - log p) of each token.

    thinking-machines-lab/tinker-cookbook@9dfcc3a, distillation/train_on_policy.py:75-105, added to the advantages;
    verl-project/verl@1dda039, trainer/distillation/losses.py:270-300, 395-430: -k1 of the current policy as advantage;
    THUDM/slime@624b824, backends/megatron_utils/loss.py:663: GRPO's advantage less opd_kl_coef (log p_old - log q).
    """
    policy, clamp = case.current if source == "current" else case.logp_old, math.inf if clamp is None else clamp
    gap = coefficient * np.clip(case.logp_teacher - policy, -clamp, clamp)
    return gap, coefficient * (abs(case.logp_teacher) + abs(policy))


def discounted_turns(case: Case, row: int, gamma: float) -> list[tuple[Flags, int, float]]:
    """The tokens of each turn of a response, the state in which it began, and its return."""
    turns = []
    for number in sorted(set(case.turn[row, case.mask[row]].tolist())):
        tokens = case.mask[row] & (case.turn[row] == number)
        state, reward = (values[row, tokens][0] for values in (case.turn_state, case.turn_reward))
        turns.append((tokens, int(state), float(reward)))
    rewards = [reward for _, _, reward in turns]
    returns = [sum(gamma ** (j - k) * rewards[j] for j in range(k, len(turns))) for k in range(len(turns))]
    return [(tokens, state, value) for (tokens, state, _), value in zip(turns, returns, strict=True)]


@part
def turn_advantage(case: Case, advantage: Array, *, omega: float, gamma: float, scaled: bool, eps: float) -> Sized:
    """GiGPO (arXiv:2505.10978 eq. 5 to 8): omega times the z-score of a turn's return among those of its state."""
    added, size = np.zeros(case.mask.shape), np.zeros(case.mask.shape)
    for rows in groups(case):
        turns = [(row, *turn) for row in rows.nonzero()[0] for turn in discounted_turns(case, row, gamma)]
        for state in {state for _, _, state, _ in turns}:
            peers = [value for _, _, other, value in turns if other == state]
            if len(set(peers)) == 1:
                continue
            mean = sum(peers) / len(peers)
            below = np.std(peers, ddof=1) + eps if scaled else 1.0
            for row, tokens, _, value in (turn for turn in turns if turn[2] == state):
                added[row, tokens] = omega * (value - mean) / below
                size[row, tokens] = omega * (abs(value) + abs(mean) + max(map(abs, peers))) / below
    return added, size
