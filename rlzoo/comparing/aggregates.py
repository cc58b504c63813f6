"""Figures of several runs beside their mean, as rliable has them (Agarwal et al. 2021, arXiv:2108.13264).

A score is that of one run on one problem set: [seeds, sets].
"""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats

from rlzoo.evaluation.statistics import probability_of_improvement

THRESHOLDS = tuple(float(tau) for tau in np.round(np.arange(0.1, 1.0, 0.1), 1))
"""Of performance profiles."""


def interquartile_mean(scores: np.ndarray) -> float:
    """The mean of all scores without the lowest and the highest quarter."""
    return float(stats.trim_mean(scores, 0.25, axis=None))


def performance_profile(scores: np.ndarray, thresholds: Sequence[float] = THRESHOLDS) -> list[float]:
    """The share of scores above each threshold."""
    return [float(np.mean(scores > threshold)) for threshold in thresholds]


def improvement(scores: np.ndarray, baseline: np.ndarray) -> float:
    """P(improvement): the share of pairs of runs that the baseline loses, a tie counting half, mean over the sets."""
    sets = zip(scores.T, baseline.T, strict=True)
    return float(np.mean([probability_of_improvement(list(own), list(other)) for own, other in sets]))


def rank_probabilities(scores: Mapping[str, np.ndarray]) -> dict[str, list[float]]:
    """Of each row the probability of each rank, the first before all, if one run of every row is drawn on each set.

    Ties are broken by chance; the mean over the sets. Exact: given its own score and luck, a row's rank counts
    independent others (a Poisson binomial), whose probabilities are polynomials of the luck.
    """
    sets = range(next(iter(scores.values())).shape[1])
    by_set = [_ranks({name: own[:, number] for name, own in scores.items()}) for number in sets]
    return {name: np.mean([ranks[name] for ranks in by_set], axis=0).tolist() for name in scores}


def _ranks(runs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    luck, weights = np.polynomial.legendre.leggauss(len(runs))
    luck, weights = (luck + 1) / 2, weights / 2
    found = {}
    for name, own in runs.items():
        others = [other for other_name, other in runs.items() if other_name != name]
        found[name] = np.mean([_rank_of(value, others, luck, weights) for value in own], axis=0)
    return found


def _rank_of(value: float, others: Sequence[np.ndarray], luck: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """[rows] the probability of each rank of a run with this score."""
    counts = np.ones((len(luck), 1))
    for other in others:
        ahead = (np.mean(other > value) + np.mean(other == value) * (1 - luck))[:, None]
        counts = np.pad(counts * (1 - ahead), ((0, 0), (0, 1))) + np.pad(counts * ahead, ((0, 0), (1, 0)))
    return np.asarray(weights @ counts)


def area_under_curve(accuracies: Mapping[int, float]) -> float:
    """The mean held-out accuracy over the steps of training, straight between evaluations; by step."""
    steps = sorted(accuracies)
    return float(np.trapezoid([accuracies[step] for step in steps], steps) / (steps[-1] - steps[0]))


def steps_to(accuracies: Mapping[int, float], threshold: float) -> int | None:
    """The first evaluated step at which the held-out accuracy reaches a threshold; None if it never does."""
    return next((step for step in sorted(accuracies) if accuracies[step] >= threshold), None)
