"""GRPO, its first corrections, and terms that others add to it."""

import math

import numpy as np

from tests.objectives.batches import Array, Case, Flags
from tests.objectives.references.parts import (
    clip,
    clipped,
    constant_length,
    dynamic_sampling,
    entropy_bonus,
    group_center,
    kl,
    kl_reward,
    micro_batch_mean,
    overlong_filter,
    prompt_mean,
    sampler_correction,
    seq_mean,
    seq_sum,
    soft_overlong,
    unclipped,
)
from tests.objectives.references.stages import Reference, Share, Term, groups, stage

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
    """The first and the last of each group's order; equal rewards in the order of their smallest lot."""
    selected = case.mask.any(1) & False
    lots = [min(lot[there].tolist(), default=math.inf) for lot, there in zip(case.lot, case.mask, strict=True)]
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
