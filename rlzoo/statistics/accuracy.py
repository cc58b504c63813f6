"""Figures of an evaluation with their intervals: avg@k, pass@k, maj@k, macro averages, before and after."""

from collections.abc import Hashable, Sequence

import numpy as np
from scipy import stats

from rlzoo.statistics.intervals import (
    Distribution,
    Estimate,
    SeedError,
    nodes_of,
    resampled_deviations,
    share,
    shrinkage,
)


def distribution(scores: np.ndarray, samples: int) -> Distribution:
    """The distribution of the mean of [seeds, problems] scores (or differences), each a mean over `samples`.

    With one seed it speaks of that one trained model alone (arXiv:2411.00640).
    """
    scores = np.asarray(scores, dtype=np.float64)
    (seeds, problems), by_seed = scores.shape, scores.mean(axis=1)
    deviations = nodes_of(resampled_deviations(scores.mean(axis=0)), problems, shrinkage(scores))
    if seeds == 1:
        return Distribution(float(scores.mean()), [], deviations)
    step = 1 / (problems * samples)  # scores of a run are multiples of it, so that unequal runs can look equal
    variance = max(by_seed.var(ddof=1), step**2 / 12)
    return Distribution(float(scores.mean()), [SeedError(1.0, float(np.sqrt(variance / seeds)), seeds - 1)], deviations)


def mean_over_runs(scores: np.ndarray) -> Estimate:
    """The mean of [seeds, problems, samples] scores from 0 to 1."""
    return share(distribution(scores.mean(axis=2), scores.shape[2]), scores.shape[1])


def mean_over_problems(scores: np.ndarray) -> Estimate:
    """The mean of [problems, samples] scores of one run, from 0 to 1."""
    return mean_over_runs(np.asarray(scores, dtype=np.float64)[None])


def macro_average(scores: Sequence[np.ndarray]) -> Estimate:
    """The mean over benchmarks of the means of their [problems, samples] scores; problems are resampled within each."""
    values = [np.asarray(on_set, dtype=np.float64).mean(axis=1) for on_set in scores]
    generator = np.random.default_rng(0)
    deviations = np.mean([generator.permutation(resampled_deviations(by_problem)) for by_problem in values], axis=0)
    problems = len(values) ** 2 / sum(1 / len(by_problem) for by_problem in values)
    center = float(np.mean([by_problem.mean() for by_problem in values]))
    return share(Distribution(center, [], nodes_of(deviations, problems)), problems)


def paired_difference(before: np.ndarray, after: np.ndarray) -> Estimate:
    """The mean of after - before over the same problems, [problems, samples] each, of one run."""
    change = np.asarray(after, dtype=np.float64) - np.asarray(before, dtype=np.float64)
    return distribution(change.mean(axis=1)[None], change.shape[1]).interval()


def pass_at_k(correct: np.ndarray, k: int) -> np.ndarray:
    """[problems] probability that one of k of the samples, drawn without replacement, is right.

    `correct` is [problems, samples]. Unbiased: 1 - C(n-c, k) / C(n, k) (arXiv:2107.03374).
    """
    right = np.asarray(correct) == 1
    return stats.hypergeom.sf(0, right.shape[1], right.sum(axis=1), k)


def powers_of_two(largest: int) -> list[int]:
    """1, 2, 4, ... up to `largest`, and that itself."""
    return sorted({*(2**i for i in range(largest.bit_length())), largest})


def majority_at_k(correct: np.ndarray, answers: Sequence[Sequence[Hashable]]) -> np.ndarray:
    """[problems] maj@k, k all samples: whether the most frequent answer is right; among equally frequent, the share.

    All right answers are one answer, however they are written. A sample without an answer (`None`) has no vote.
    """
    return np.array([_majority(row, texts) for row, texts in zip(np.asarray(correct) == 1, answers, strict=True)])


def _majority(right: np.ndarray, answers: Sequence[Hashable]) -> float:
    wrong = [answer for answer, is_right in zip(answers, right, strict=True) if not is_right and answer is not None]
    votes = [wrong.count(answer) for answer in set(wrong)]
    most = max([int(right.sum()), *votes])
    return float(right.sum() == most) / (votes.count(most) + 1) if right.any() else 0.0
