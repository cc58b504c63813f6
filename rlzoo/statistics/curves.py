"""Learning curves of several rows at an equal compute: who was further when the same was spent."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special, stats

from rlzoo.statistics.intervals import LEVEL, Estimate
from rlzoo.statistics.paired import mean_by_seed
from rlzoo.statistics.spread import learn_spread

PRIOR_DEGREES = (2.0, 4.0)
"""What the rows' variances may be worth to each other: rows that are less far on their curves lie further apart."""
FLOOR = 1e-18
"""Of the variance over seeds, so that equal seeds have an interval."""


@dataclass(frozen=True)
class Curves:
    """The learning curves of one row, a line for each seed."""

    compute: np.ndarray
    """[seeds, points] spent so far, rising; 0 for the untrained model, which is the first point."""
    accuracy: np.ndarray
    """[seeds, points]."""


def accuracies_at(rows: Sequence[Curves], compute: float) -> list[Estimate | None]:
    """Of each row, the accuracy when so much was spent: of each seed, a straight line through the tenth of its points
    that is nearest, two at least. None for a row of one seed.
    """
    by_seed = [
        np.array([_near(*seed, compute) for seed in zip(row.compute, row.accuracy, strict=True)]) for row in rows
    ]
    estimates = iter(over_seeds([values for values in by_seed if len(values) > 1]))
    return [next(estimates) if len(values) > 1 else None for values in by_seed]


def _near(spent: np.ndarray, accuracy: np.ndarray, compute: float) -> float:
    nearest = np.argsort(np.abs(spent - compute), kind="stable")[: max(2, len(spent) // 10)]
    if np.ptp(spent[nearest]) == 0:
        return float(accuracy[nearest].mean())
    return float(np.polynomial.Polynomial.fit(spent[nearest], accuracy[nearest], 1)(compute))


def over_seeds(values: Sequence[np.ndarray]) -> list[Estimate]:
    """The mean of each row's [seeds] values, two or more, with its interval; the spread is learnt from all rows."""
    if len(values) < 2:
        return [mean_by_seed(by_seed) for by_seed in values]
    spread = learn_spread(values, FLOOR, PRIOR_DEGREES)
    mixtures = zip(values, spread.weights, spread.variances, spread.degrees, strict=True)
    return [
        _interval(by_seed, weights, np.sqrt(variance / len(by_seed)), degrees)
        for by_seed, weights, variance, degrees in mixtures
    ]


def _interval(values: np.ndarray, weights: np.ndarray, errors: np.ndarray, degrees: np.ndarray) -> Estimate:
    """Of a mean whose deviation is a mixture of Student's t."""
    outside = (1 - LEVEL) / 2
    farthest = float(np.max(errors * stats.t.isf(outside / 10, degrees)))
    reach = optimize.brentq(
        lambda x: weights @ special.stdtr(degrees, -x / errors) - outside, 0.0, farthest, xtol=1e-14
    )
    mean = float(values.mean())
    return Estimate(mean, mean - reach, mean + reach)
