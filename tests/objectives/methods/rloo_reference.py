"""RLOO (arXiv:2402.14740): the mean of the others as baseline, sums over responses, k1 in the reward; no clip.

TRL: the product of a response's ratios, clipped at 0.2.
"""

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.methods.gspo_reference import sequence_ratio
from tests.objectives.parts_reference import clip, clipped, kl_reward, seq_mean, seq_sum, unclipped
from tests.objectives.reference import groups


def leave_one_out(case: Case, reward: Array) -> tuple[Array, Array]:
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
TRL = {**RLOO, "ratio": sequence_ratio(mean=False), "surrogate": clip()}

RECIPES = {
    "rloo": clipped(**RLOO, surrogate=unclipped, rewards=[kl_reward(0.03)]),
    "rloo(variant=trl)": clipped(**TRL, rewards=[kl_reward(0.05)], stops_gradients=True),
}

COMPOSITIONS = {
    "rloo-kl_reward": clipped(**RLOO, surrogate=unclipped),
    "rloo+seq_mean-kl_reward": clipped(advantage=leave_one_out, share=seq_mean, surrogate=unclipped),
}
