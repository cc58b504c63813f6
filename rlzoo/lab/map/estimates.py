"""Estimates from batches of rollouts: the noise of means taken off, and intervals that hold for all of them at once."""

from dataclasses import dataclass

import numpy as np

from rlzoo.statistics.intervals import Estimate

RESAMPLES = 4000


def normalised_samples(products: np.ndarray, along: np.ndarray) -> np.ndarray:
    """[B, K] samples whose mean estimates E[along] / |E[x]| from B >= 3 batches, each of a vector x.

    `products` [B, B] are the inner products of the vectors, `along` [B, K] is what is linear in them. The square of the
    length of a mean is the mean product of *different* batches, in which their noise is not. The samples are the
    jackknife's pseudo-values: their spread is that of the whole quotient.
    """
    count = len(products)
    squares, with_all = np.diag(products), products.sum(1)
    pairs = products.sum() - squares.sum()
    whole = _quotient(along.mean(0), pairs / (count * (count - 1)), squares.mean())
    mean_without = (along.sum(0) - along) / (count - 1)
    square_without = (pairs - 2 * (with_all - squares)) / ((count - 1) * (count - 2))
    return count * whole - (count - 1) * _quotient(mean_without, square_without[:, None], squares.mean())


def _quotient(numerator: np.ndarray, square: np.ndarray | float, scale: float) -> np.ndarray:
    """A length that its noise hides is taken as a thousandth of the noise, which no interval overlooks."""
    return numerator / np.sqrt(np.maximum(square, 1e-6 * scale + 1e-300))


@dataclass(frozen=True, eq=False)
class Intervals:
    """[K] means with intervals that hold together."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def __getitem__(self, place: int) -> Estimate:
        return Estimate(float(self.mean[place]), float(self.low[place]), float(self.high[place]))


def simultaneous(samples: np.ndarray, error: float, seed: int = 0) -> Intervals:
    """The means of [B, K] samples, K of them paired; with probability 1 - `error` no interval misses any mean.

    The largest studentised deviation of a bootstrap over batches (Romano & Wolf 2005, in one step) is what every mean
    is compared with: so it knows that expressions which share rollouts err together.
    """
    count, mean = len(samples), samples.mean(0)
    centred = samples - mean
    deviation = np.sqrt(centred.var(0, ddof=1) / count)
    varies = deviation > 1e-9 * np.abs(samples).max(0, initial=0)  # what differs by rounding alone does not vary
    if not varies.any():
        return Intervals(mean, mean, mean)
    weights = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), RESAMPLES) / count
    shifts, squares = weights @ centred[:, varies], weights @ np.square(centred[:, varies])
    deviations = np.sqrt((squares - np.square(shifts)).clip(0) / (count - 1))
    largest = (np.abs(shifts) / np.maximum(deviations, 0.1 * deviation[varies])).max(1)
    reach = np.quantile(largest, 1 - error, method="higher")
    return Intervals(mean, mean - reach * deviation, mean + reach * deviation)
