"""Advantages: baselines, scales, and those that are made of correctness."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import combinations

import numpy as np

from tests.objectives.batches import Array, Case, Flags
from tests.objectives.references.parts import (
    center_then_global_norm,
    clip,
    clipped,
    dynamic_sampling,
    dynamic_sampling_by_reward,
    entropy_bonus,
    global_norm,
    group_center,
    group_norm,
    kl,
    kl_reward,
    micro_batch_mean,
    quantile,
    reinforce,
    reweighting,
    seq_mean,
    seq_sum,
    sequence_ratio,
    token_mean,
    unclipped,
)
from tests.objectives.references.stages import Reference, Sized, groups, stage

REFERENCES: dict[str, Reference] = {}

# RLOO (arXiv:2402.14740): the mean of the others as baseline, sums over responses, k1 in the reward; no clip.
#
# TRL: the product of a response's ratios, clipped at 0.2.


def leave_one_out(case: Case, reward: Array) -> Sized:
    """R - mean of the group's others, each by itself; exactly 0 where the rewards are equal."""
    result, size = np.zeros(len(reward)), np.zeros(len(reward))
    for rows in groups(case):
        if len(set(reward[rows].tolist())) == 1:
            continue
        for i in rows.nonzero()[0]:
            others = reward[rows & (np.arange(len(reward)) != i)]
            baseline = others.sum() / len(others)
            result[i], size[i] = reward[i] - baseline, abs(reward[i]) + abs(others).sum() / len(others)
    return result, size


RLOO = {"advantage": leave_one_out, "share": seq_sum}


RLOO_TRL = {**RLOO, "ratio": sequence_ratio(mean=False), "surrogate": clip()}


REFERENCES |= {
    "rloo": clipped(**RLOO, surrogate=unclipped, rewards=[kl_reward(0.03)]),
    "rloo(variant=trl)": clipped(**RLOO_TRL, rewards=[kl_reward(0.05)], stops_gradients=True),
    "rloo-kl_reward": clipped(**RLOO, surrogate=unclipped),
    "rloo+seq_mean-kl_reward": clipped(advantage=leave_one_out, share=seq_mean, surrogate=unclipped),
}


# REINFORCE (Williams 1992): R log pi, summed over each response, meant over responses.
#
# The value is that of R pi / sg[pi], which has the same gradient.


def raw_reward(case: Case, reward: Array) -> Sized:
    """The reward."""
    return reward, abs(reward)


REFERENCES |= {
    "reinforce": clipped(advantage=raw_reward, surrogate=reinforce, share=seq_sum, stops_gradients=True),
    "justrl+reinforce": clipped(surrogate=reinforce, stops_gradients=True),
}


# REINFORCE++ (arXiv:2501.03262, eq. 1, 8-10): R less beta times the KL to come, over the batch's std; clip 0.2.
#
# OpenRLHF: mean over all tokens.

PPO_MEAN = {"surrogate": clip(), "share": seq_mean}


REFERENCES |= {
    "reinforce_pp": clipped(**PPO_MEAN, advantage=global_norm(), rewards=[kl_reward(0.001, to_go=True)]),
    "reinforce_pp(variant=authors)": clipped(
        **PPO_MEAN | {"share": token_mean}, advantage=global_norm(), rewards=[kl_reward(0.01, to_go=True)]
    ),
    "reinforce_pp(over=rows,to_go=false,beta=0.05)": clipped(
        **PPO_MEAN, advantage=global_norm("rows"), rewards=[kl_reward(0.05)]
    ),
    "reinforce_pp-kl_reward": clipped(**PPO_MEAN, advantage=global_norm()),
}


# REINFORCE++-baseline (arXiv:2501.03262, eq. 8): (R - mean_group) / std over the batch's rows; clip 0.2; 1e-5 k2.
#
# OpenRLHF: over all tokens, whose mean is taken off as well; mean over all tokens.

BASELINE = PPO_MEAN | {"penalties": [kl(1e-5, "k2")]}


REFERENCES |= {
    "reinforce_pp_baseline": clipped(**BASELINE, advantage=center_then_global_norm()),
    "reinforce_pp_baseline(variant=authors)": clipped(
        **BASELINE | {"share": token_mean}, advantage=center_then_global_norm("tokens")
    ),
    "reinforce_pp_baseline-kl": clipped(**PPO_MEAN, advantage=center_then_global_norm()),
}


# OPO (arXiv:2505.23585): A log pi, A = R - sum |y| R / sum |y| over the group, summed over each response.
#
# verl: that advantage in PPO's loss, clipped at 0.2, capped at 3; mean over tokens.


def optimal_baseline(case: Case, reward: Array) -> Sized:
    """R - b over all rows of the group; exactly 0 where the rewards are equal."""
    result, size = np.zeros(len(reward)), np.zeros(len(reward))
    length = case.mask.sum(1)
    for rows in groups(case):
        peers, weight = reward[rows], length[rows] / max(1, length[rows].sum())
        if not (peers == peers[0]).all():
            result[rows] = peers - (weight * peers).sum()
            size[rows] = abs(peers) + abs(peers).sum() / len(peers) + (weight * abs(peers)).sum()
    return result, size


REFERENCES |= {
    "opo": clipped(advantage=optimal_baseline, surrogate=reinforce, share=seq_sum, stops_gradients=True),
    "opo(variant=verl)": clipped(advantage=optimal_baseline, surrogate=clip(cap=3.0)),
    "dapo-dynamic_sampling-soft_overlong+opo": clipped(advantage=optimal_baseline),
}


# OTB (arXiv:2602.07078; verl-project/verl@1dda039 docs/algo/otb.md, core_algos.py:872-987 for the variant verl).
#
# R - sum_j W_jt R_j / sum_j W_jt over the t-th tokens of a group, W the sum up to t of 1 - 2 pi + sum of pi^2.


@stage
def token_baseline(case: Case, reward: Array, *, keeps_reward=False) -> Sized:
    """What a response's t-th token is worth, beside those of its group; a token alone is worth 0, or the reward."""
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
                result[here[0], places[0]] = size[here[0], places[0]] = reward[here[0]] if keeps_reward else 0.0
            elif here and not equal:
                w = np.array([step[row, at[row][: t + 1]].sum() for row in here])
                r, mean = reward[here], reward[rows].mean()
                base = (w * r).sum() / w.sum() if w.sum() else mean
                result[here, places] = r - base
                size[here, places] = abs(r) + abs(mean) + abs(r).max()
    return result, abs(size)


OTB = {"surrogate": reinforce, "share": seq_sum, "stops_gradients": True}


REFERENCES |= {
    "otb": clipped(**OTB, advantage=token_baseline()),
    "otb(variant=verl)": clipped(advantage=token_baseline(keeps_reward=True), surrogate=clip(cap=3.0)),
    "justrl+otb": clipped(advantage=token_baseline()),
}


# Lite PPO (arXiv:2508.08221): (R - mean_group) / (std of all rewards + 1e-4), ddof 1; clip 0.2, mean over tokens.


def center_batch_std(case: Case, reward: Array) -> Sized:
    """R - mean, over the deviation of the rewards of all groups that are there."""
    centred, size = group_center(case, reward)
    there = reward[np.isin(case.group, case.group[case.mask.any(1)])]
    deviation = math.sqrt(((there - there.sum() / max(1, len(there))) ** 2).sum() / max(1, len(there) - 1)) + 1e-4
    return centred / deviation, size / deviation


REFERENCES |= {
    "lite_ppo": clipped(advantage=center_batch_std, surrogate=clip()),
    "lite_ppo+dynamic_sampling": clipped(advantage=center_batch_std, surrogate=clip(), selects=[dynamic_sampling]),
}


# GPG (arXiv:2504.02546): A log pi, A = (R - mean) B / (B - M), M rows in groups of equal rewards; mean over tokens.
#
# verl: the share is that of the rewards that are not zero.
# The value is that of A pi / sg[pi], which has the same gradient.


@stage
def scaled_center(case: Case, reward: Array, *, eps=0.0, rewarded=False) -> Sized:
    """R - mean, over the share of rows to learn from among those of groups that are there."""
    there, counted = 0, 0
    for rows in groups(case):
        if case.mask[rows].any():
            peers = reward[rows].tolist()
            there += len(peers)
            counted += sum(value != 0 for value in peers) if rewarded else len(peers) * (len(set(peers)) > 1)
    share = max(1, counted) / max(1, there) + eps
    centred, size = group_center(case, reward)
    return centred / share, size / share


GPG = {"stops_gradients": True, "surrogate": reinforce}


REFERENCES |= {
    "gpg": clipped(**GPG, advantage=scaled_center()),
    "gpg(variant=authors)": clipped(**GPG, advantage=scaled_center()),
    "gpg(variant=verl)": clipped(**GPG, advantage=scaled_center(rewarded=True)),
    "gpg+dynamic_sampling": clipped(**GPG, advantage=scaled_center(), selects=[dynamic_sampling]),
}


# GDPO (arXiv:2601.05242; huggingface/trl@f2cd577 grpo_trainer.py:2710-2720): the rewards' z-scores, added up.
#
# Verl-project/verl@1dda039 core_algos.py:362-466 for the variant verl: whitened over the tokens.


@stage
def decoupled(case: Case, reward: Array, *, eps=1e-4, tokens=False) -> Sized:
    """The sum of the z-scores of all rewards, over its deviation in the batch."""
    parts = [group_norm(case, column, eps) for column in case.rewards.T]
    total, size = sum(value for value, _ in parts), sum(size for _, size in parts)
    if tokens:
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


REFERENCES |= {
    "gdpo": clipped(advantage=decoupled(), surrogate=clip()),
    "gdpo(variant=verl)": clipped(advantage=decoupled(1e-6, tokens=True), surrogate=clip(cap=3.0)),
    "justrl+gdpo": clipped(advantage=decoupled()),
    "gdpo+dynamic_sampling": clipped(advantage=decoupled(), surrogate=clip(), selects=[dynamic_sampling]),
    "gdpo+dynamic_sampling_by_reward": clipped(
        advantage=decoupled(), surrogate=clip(), selects=[dynamic_sampling_by_reward]
    ),
}


# MaxRL (arXiv:2602.02710): (c - mean) / (mean + 1e-6) of correctness, 0 where none is right; clip 0.2.


@stage
def mean_norm(case: Case, reward: Array, *, eps=1e-6) -> Sized:
    """Correctness less its mean, over that mean; whatever the rewards."""
    result, size = np.zeros(len(reward)), np.zeros(len(reward))
    for rows in groups(case):
        peers = case.correct[rows]
        if len(set(peers.tolist())) > 1:
            mean = peers.sum() / len(peers)
            result[rows], size[rows] = (peers - mean) / (mean + eps), (peers + mean) / (mean + eps)
    return result, size


REFERENCES |= {
    "maxrl": clipped(advantage=mean_norm(), surrogate=clip()),
    "maxrl(eps=0.1)": clipped(advantage=mean_norm(0.1), surrogate=clip()),
    "justrl+maxrl": clipped(advantage=mean_norm()),
}


# Pass@k training (arXiv:2508.10751): z-scored pass@k of every set of k responses, averaged over a response's sets.
#
# The sets are gone through one by one. Clip at 0.2.


@cache
def of_responses(right: tuple[bool, ...], k: int) -> list[tuple[float, float]]:
    """The advantage of each response, and its size."""
    sets = list(combinations(range(len(right)), min(k, len(right))))
    passed = [any(right[i] for i in chosen) for chosen in sets]
    rho = sum(passed) / len(sets)
    deviation = math.sqrt(rho * (1 - rho)) + 1e-6
    own = [[p for p, chosen in zip(passed, sets, strict=True) if i in chosen] for i in range(len(right))]
    if len(set(passed)) == 1:
        return [(0.0, 0.0)] * len(right)
    return [((sum(p) / len(p) - rho) / deviation, (sum(p) / len(p) + rho) / deviation) for p in own]


@stage
def pass_at_k(case: Case, reward: Array, *, k=4) -> Sized:
    """The mean over the sets that a response is in."""
    result, size = np.zeros(len(reward)), np.zeros(len(reward))
    for rows in groups(case):
        found = of_responses(tuple(bool(value == 1) for value in case.correct[rows]), k)
        result[rows], size[rows] = np.array(found).T
    return result, size


REFERENCES |= {
    "passk": clipped(advantage=pass_at_k(), surrogate=clip()),
    **{f"passk(k={k})": clipped(advantage=pass_at_k(k), surrogate=clip()) for k in (1, 2, 3)},
}


# QAE (arXiv:2509.22611): (R - Q) / (std + 1e-6), Q the 0.4-quantile of the group; clip at 1.28, dynamic sampling.
#
# Paper: the smallest reward that 40 % of the group do not exceed. Authors: interpolated linearly.


def smallest(values: Array, q: str) -> float:
    """The smallest value x such that a share q of them is at most x."""
    shares = {x: Fraction(int((values <= x).sum()), len(values)) for x in values.tolist()}
    return min(x for x, share in shares.items() if share >= Fraction(q))


@stage
def quantile_norm(case: Case, reward: Array, *, q="0.4", of: Callable[[Array, str], float] = smallest) -> Sized:
    """R less the quantile, over the deviation with ddof 1; exactly 0 where the rewards are equal."""
    result, size = np.zeros(len(reward)), np.zeros(len(reward))
    for rows in groups(case):
        peers = reward[rows]
        if not (peers == peers[0]).all():
            baseline, deviation = of(peers, q), peers.std(ddof=1) + 1e-6
            result[rows], size[rows] = (peers - baseline) / deviation, (abs(peers) + abs(baseline)) / deviation
    return result, size


QAE = {"selects": [dynamic_sampling]}


REFERENCES |= {
    "qae": clipped(**QAE, advantage=quantile_norm()),
    "qae(variant=linear)": clipped(**QAE, advantage=quantile_norm(of=quantile)),
    "qae(q=0.6)": clipped(**QAE, advantage=quantile_norm("0.6")),
    "lite_ppo+quantile_norm(q=0.25,kind=linear)": clipped(advantage=quantile_norm("0.25", quantile), surrogate=clip()),
}


# AGPO version 1 (arXiv:2503.15952): GRPO, with advantages of 1 and -1 where a whole group is right or wrong.


def agpo(case: Case, reward: Array) -> Sized:
    """The z-score, or 1 and -1 where the rewards of a group are equal and all of it is right or wrong."""
    result, size = group_norm(case, reward)
    for rows in groups(case):
        if len(set(reward[rows].tolist())) == 1 and len(set(case.correct[rows].tolist())) == 1:
            result[rows] = {1.0: 1.0, 0.0: -1.0}.get(case.correct[rows][0], 0.0)
            size[rows] = abs(result[rows])
    return result, size


AGPO = {"surrogate": clip(), "share": seq_mean}


REFERENCES |= {
    "agpo": clipped(**AGPO, advantage=agpo, penalties=[kl(0.04)]),
    "agpo-kl": clipped(**AGPO, advantage=agpo),
}


# W-REINFORCE (arXiv:2506.01347): A = 0.1 of right answers, -1 of wrong ones, no baseline; clip 0.2, token mean.
#
# PSR: right answers alone, A = 1. NSR: wrong ones alone. The authors' code: the mean within each micro-batch,
# and 0.001 times the entropy.


@stage
def signed_reward(case: Case, reward: Array, *, right=0.1, wrong: float = -1.0) -> Sized:
    """One of two numbers, whatever the rewards."""
    values = np.array([right if correct == 1 else wrong for correct in case.correct.tolist()])
    return values, abs(values)


def right_ones(case: Case) -> Flags:
    """Answers that are right in full."""
    return case.correct == 1


def wrong_ones(case: Case) -> Flags:
    """All others."""
    return case.correct < 1


SIGNED = {"surrogate": clip()}


SIGNED_CODE = SIGNED | {"share": micro_batch_mean, "penalties": [entropy_bonus(0.001)]}


REFERENCES |= {
    "w_reinforce": clipped(**SIGNED, advantage=signed_reward()),
    "w_reinforce(variant=psr)": clipped(**SIGNED, advantage=signed_reward(1.0), selects=[right_ones]),
    "w_reinforce(variant=nsr)": clipped(**SIGNED, advantage=signed_reward(), selects=[wrong_ones]),
    "w_reinforce(variant=authors)": clipped(**SIGNED_CODE, advantage=signed_reward()),
    "w_reinforce(variant=psr_authors)": clipped(**SIGNED_CODE, advantage=signed_reward(1.0), selects=[right_ones]),
    "w_reinforce(variant=nsr_authors)": clipped(**SIGNED_CODE, advantage=signed_reward(), selects=[wrong_ones]),
    "w_reinforce(right=1,wrong=0)": clipped(**SIGNED, advantage=signed_reward(1.0, 0.0)),
}


# ARM (arXiv:2602.05281): A + alpha (c(q) - c(o)) in groups whose rewards differ, on JustRL.
#
# C(o) is the geometric mean of the probabilities of the ceil(20 %) least probable tokens, c(q) that of the prompt's.


def confidence(logp: Array, fraction: str = "0.2") -> float:
    """Of one response, [t] log-probs."""
    count = max(1, math.ceil(Fraction(fraction) * len(logp)))
    return math.exp(math.fsum(sorted(logp.tolist())[:count]) / count)


@stage
def shifted(
    case: Case,
    reward: Array,
    *,
    alpha=0.5,
    fraction="0.2",
    any_right=False,
    advantage: Callable[[Case, Array], tuple[Array, Array]] = group_norm,
) -> Sized:
    """The advantages of each response, shifted."""
    values, size = advantage(case, reward)
    for rows in groups(case):
        there = [row for row in np.flatnonzero(rows) if case.mask[row].any()]
        if not (case.correct[rows] == 1).any() if any_right else not values[there].any():
            continue
        for row in there:
            c_prompt = math.exp(case.logp_prompt[row])
            c_response = confidence(case.logp_old[row, case.mask[row]], fraction)
            values[row] += alpha * (c_prompt - c_response)
            size[row] += alpha * (c_prompt + c_response)
    return values, size


REFERENCES |= {
    "arm(alpha=0.5)": clipped(advantage=shifted()),
    "arm(alpha=2,fraction=0.5,groups=any_right)": clipped(advantage=shifted(2.0, "0.5", any_right=True)),
    "arm(alpha=1)+group_center+ar": clipped(advantage=shifted(1.0, advantage=group_center), weights=[reweighting(0.3)]),
}
