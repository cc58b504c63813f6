"""TPO (arXiv:2604.06159 eq. 1-3, appendix A; JeanKaddour/tpo@73473b9 src/tpo/algorithms.py:287-324).

-sum_i q_i log P_i of each prompt: P the softmax of the responses' log-probs, q that of the old ones and u / eta.
"""

import math
from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.parts_reference import clipped, group_center, group_norm, seq_sum
from tests.objectives.reference import groups

SMALLEST = 1e-20
"""Probabilities below are judged by it."""


def population_norm(case: Case, reward: Array) -> tuple[Array, Array]:
    """(R - mean) / std with ddof 0 over all rows of the group."""
    centred, size = group_center(case, reward)
    deviation = np.ones(len(reward))
    for rows in groups(case):
        deviation[rows] = math.sqrt((centred[rows] ** 2).sum() / rows.sum()) or 1.0
    return centred / deviation, size / deviation


def log_softmax(scores: Array) -> Array:
    apart = scores - scores.max()
    return apart - math.log(np.exp(apart).sum())


def target_match(eta: float = 1.0) -> Callable[..., tuple[Array, ...]]:
    """The objective of each token, its prompt's over its response's tokens, and its derivative by log pi."""

    def surrogate(case: Case, ratio: Array, slope: Array, advantage: Array) -> tuple[Array, ...]:
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

    return surrogate


TPO = {"advantage": population_norm, "share": seq_sum}

RECIPES = {"tpo": clipped(**TPO, surrogate=target_match())}

COMPOSITIONS = {
    "tpo(eta=0.25)": clipped(**TPO, surrogate=target_match(0.25)),
    "tpo+group_norm": clipped(advantage=group_norm, share=seq_sum, surrogate=target_match()),
    "justrl+population_norm": clipped(advantage=population_norm),
}
