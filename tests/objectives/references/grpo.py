"""GRPO, its first corrections, those for the engine that samples, and terms that others add."""

import math
from functools import partial

import numpy as np

from tests.objectives.batches import Array, Case, Flags
from tests.objectives.references.parts import (
    clip,
    clipped,
    constant_length,
    drift,
    dynamic_sampling,
    entropy_bonus,
    group_center,
    group_norm,
    kl,
    kl_reward,
    live_only,
    micro_batch_mean,
    mismatch,
    overlong_filter,
    prompt_mean,
    reinforce,
    sampler_correction,
    seq_mean,
    seq_sum,
    soft_overlong,
    unclipped,
)
from tests.objectives.references.stages import Kept, Reference, Share, Sized, Term, Terms, groups, stage

REFERENCES: dict[str, Reference] = {}

# GRPO (arXiv:2402.03300, eq. 3-4): z-scored advantages, clip at 0.2, mean per response, k3 against the reference.


def grpo(low: float = 0.2, high: float = 0.2, cap: float = float("inf"), **stages: object) -> Reference:
    """GRPO with some stages replaced."""
    return clipped(**{"surrogate": clip(low, high, cap), "share": seq_mean, "penalties": [kl()], **stages})


REFERENCES |= {
    "grpo": grpo(),
    "grpo+dual_clip": grpo(cap=3.0),
    "grpo(low=0.1)+clip_higher(high=0.5)": grpo(0.1, 0.5),
    "grpo(low=0)": grpo(0.0, 0.0),
    "grpo(estimator=k1)": grpo(penalties=[kl(estimator="k1")]),
    "grpo(estimator=k2,beta=0.5)": grpo(penalties=[kl(0.5, "k2")]),
    "grpo+entropy_bonus(coefficient=0.01)": grpo(penalties=[kl(), entropy_bonus(0.01)]),
    "grpo+live_only": grpo(late_selects=[live_only]),
    "grpo+epochs(count=3)": grpo(passes=lambda case: [case.mask] * 3),
    "grpo-kl+kl_reward": grpo(penalties=[], rewards=[kl_reward(0.05)]),
}


# Dr. GRPO (arXiv:2503.20783): R - mean, and a denominator that no response changes.

DR_GRPO = {"advantage": group_center, "surrogate": clip()}


REFERENCES |= {
    "dr_grpo": clipped(**DR_GRPO, share=constant_length()),
    "dr_grpo(length=7)": clipped(**DR_GRPO, share=constant_length(7)),
}


# DAPO (arXiv:2503.14476, eq. 8-13): clip 0.8 to 1.28, mean over all tokens, mixed groups only, length punished.
#
# The authors' code: dual clip at 10, the mean within each micro-batch, weighted by its responses.

DAPO = {"rewards": [soft_overlong()], "selects": [dynamic_sampling]}


DAPO_CODE = {"surrogate": clip(high=0.28, cap=10.0), "share": micro_batch_mean}


REFERENCES |= {
    "dapo": clipped(**DAPO),
    "dapo(variant=authors)": clipped(**DAPO, **DAPO_CODE),
    "dapo(scope=prompt)": clipped(**DAPO, share=prompt_mean),
}


# JustRL (arXiv:2512.16649): DAPO's surrogate and mean, and nothing else.

REFERENCES |= {
    "justrl": clipped(),
    "justrl(variant=authors)": clipped(**DAPO_CODE),
    "justrl+group_center": clipped(advantage=group_center),
    "justrl+overlong_filter": clipped(selects=[overlong_filter]),
    "justrl+soft_overlong(max_length=8,cache=4)": clipped(rewards=[soft_overlong(8, 4)]),
    "justrl+sampler_correction": clipped(weights=[sampler_correction()]),
    "justrl+seq_sum": clipped(share=seq_sum),
    "justrl+unclipped": clipped(surrogate=unclipped),
}


# DeepSeek-V3.2's KL (arXiv:2512.02556; huggingface/trl@f2cd577, grpo_trainer.py:3068-3076): ratio times k3.


@stage
def unbiased_kl(case: Case, advantage: Array, share: Share, *, beta=0.04) -> Term:
    """R k3 and its derivative by log pi, both factors differentiated."""
    x, z = case.logp_ref - case.current, case.current - case.logp_old
    ratio = np.exp(np.clip(z, -20, 20))
    k3, size = np.exp(x) - x - 1, np.exp(x) + abs(x) + 1
    slope = ratio * (np.where(abs(z) <= 20, k3, 0.0) + 1 - np.exp(x))
    each = share(case, case.mask) * beta * case.mask
    return Term(each * ratio * k3, each * slope, np.zeros(x.shape), 2 * each * ratio * size)


REFERENCES |= {
    "justrl+unbiased_kl": clipped(penalties=[unbiased_kl()]),
}


# Positive-example likelihood (VAPO, arXiv:2504.05118): - 0.1 log pi, meant over the tokens of right answers.


@stage
def positive_nll(case: Case, advantage: Array, share: Share, *, mu=0.1) -> Term:
    """The mean over all tokens of right answers, whatever the others' denominator is."""
    tokens = case.mask & (case.correct == 1)[:, None]
    each = mu * tokens / max(1, int(tokens.sum()))
    return Term(-each * case.current, -each, np.zeros(each.shape), each)


REFERENCES |= {
    "positive_nll": clipped(penalties=[positive_nll()]),
    "positive_nll(mu=2)+dynamic_sampling+seq_mean": clipped(
        penalties=[positive_nll(2.0)], selects=[dynamic_sampling], share=seq_mean
    ),
}


# Shuffle-R1's pairs (arXiv:2508.05612): of the responses sorted by reward, the outermost half, as many good as bad.


@stage
def extreme_pairs(case: Case, *, share=0.5) -> Flags:
    """The first and the last of each group's order; equal rewards in the order of their smallest random key."""
    selected = case.mask.any(1) & False
    lots = [min(lot[there].tolist(), default=math.inf) for lot, there in zip(case.random_key, case.mask, strict=True)]
    for rows in groups(case):
        order = sorted(rows.nonzero()[0].tolist(), key=lambda row: (-case.reward[row], lots[row]))
        pairs = list(zip(order, reversed(order), strict=True))[: len(order) // 2]
        for pair in pairs[: math.floor(share * len(pairs))]:
            selected[list(pair)] = True
    return selected


REFERENCES |= {
    "shuffle_r1": clipped(surrogate=clip(), selects=[extreme_pairs()]),
    "shuffle_r1(variant=authors)": clipped(surrogate=clip(), selects=[extreme_pairs()], share=micro_batch_mean),
    "shuffle_r1(share=1)": clipped(surrogate=clip(), selects=[extreme_pairs(1.0)]),
    "justrl+shuffle_r1": clipped(selects=[extreme_pairs()]),
}


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
        **DPPO,
        surrogate=divergence_clip(0.2),
        penalties=[drift(0.001, "square", "sampler")],
        late_selects=[live_only],
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
