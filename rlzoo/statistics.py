"""Intervals that say how far an evaluation can be trusted."""

from dataclasses import dataclass

import numpy as np
from scipy import stats

RESAMPLES = 10_000


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95 % interval."""

    mean: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the interval's width."""
        return (self.high - self.low) / 2


def mean_over_problems(scores: np.ndarray) -> Estimate:
    """The mean of [problems, samples] scores and its interval: a percentile bootstrap over problems.

    Samples of one problem are not independent of each other, so problems are what is resampled (arXiv:2411.00640).
    """
    values = np.asarray(scores, dtype=np.float64).mean(axis=1)
    if len(values) < 2 or np.ptp(values) == 0:
        return Estimate(float(values.mean()), float(values.mean()), float(values.mean()))
    generator = np.random.default_rng(0)
    result = stats.bootstrap((values,), np.mean, n_resamples=RESAMPLES, batch=500, method="percentile", rng=generator)
    return Estimate(float(values.mean()), float(result.confidence_interval.low), float(result.confidence_interval.high))


def paired_difference(before: np.ndarray, after: np.ndarray) -> Estimate:
    """The mean of after - before over the same problems, [problems, samples] each, and its interval."""
    difference = np.asarray(after, dtype=np.float64).mean(axis=1) - np.asarray(before, dtype=np.float64).mean(axis=1)
    return mean_over_problems(difference[:, None])
