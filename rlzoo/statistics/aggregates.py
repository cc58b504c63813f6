"""Figures of several runs beside their mean, as rliable has them (Agarwal et al. 2021, arXiv:2108.13264).

A score is that of one run on one problem set: [seeds, sets].
"""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats

THRESHOLDS = tuple(float(tau) for tau in np.round(np.arange(0.1, 1.0, 0.1), 1))
"""Of performance profiles."""


def interquartile_mean(scores: np.ndarray) -> float:
    """The mean of all scores without the lowest and the highest quarter; of fewer than four it is the mean."""
    return float(stats.trim_mean(scores, 0.25, axis=None))


def performance_profile(scores: np.ndarray, thresholds: Sequence[float] = THRESHOLDS) -> list[float]:
    """The share of scores above each threshold."""
    return [float(np.mean(scores > threshold)) for threshold in thresholds]


def improvement(scores: np.ndarray, baseline: np.ndarray) -> float:
    """P(improvement): the share of pairs of runs that the baseline loses, a tie counting half, mean over the sets."""
    ahead = [np.subtract.outer(runs, others) for runs, others in zip(scores.T, baseline.T, strict=True)]
    return float(np.mean([np.mean((margin > 0) + 0.5 * (margin == 0)) for margin in ahead]))


def area_under_curve(accuracies: Mapping[int, np.ndarray]) -> np.ndarray:
    """[problems] the mean accuracy over the steps of training, straight between evaluations; [problems] by step."""
    steps = sorted(accuracies)
    return np.trapezoid([accuracies[step] for step in steps], steps, axis=0) / (steps[-1] - steps[0])


def steps_to(accuracies: Mapping[int, float], threshold: float) -> int | None:
    """The first evaluated step at which the held-out accuracy reaches a threshold; None if it never does."""
    return next((step for step in sorted(accuracies) if accuracies[step] >= threshold), None)
