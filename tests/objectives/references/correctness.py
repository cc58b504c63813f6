"""Advantages that are made of correctness."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import combinations

import numpy as np

from tests.objectives.batches import Array, Case, Flags
from tests.objectives.references.parts import (
    clip,
    clipped,
    dynamic_sampling,
    entropy_bonus,
    group_center,
    group_norm,
    kl,
    micro_batch_mean,
    quantile,
    reweighting,
    seq_mean,
)
from tests.objectives.references.stages import Reference, Sized, groups, stage

REFERENCES: dict[str, Reference] = {}

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
