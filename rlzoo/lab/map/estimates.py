"""Estimates from batches of rollouts, with intervals that hold together, and which objectives are alike."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from sklearn.manifold import smacof

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


# ---- likeness --------------------------------------------------------------------------------------------------------


SAME = 0.99
"""The cosine from which two gradients are called the same."""


def cosines(gradients: Sequence[np.ndarray]) -> np.ndarray:
    """[E, E]: mean over batches of the cosine of gradients [batches, D] of E objectives on the same rollouts.

    A batch in which one of them has no gradient at all counts as a cosine of 0.
    """
    units = [_unit(gradient).reshape(-1) for gradient in gradients]
    products = np.array([[a @ b for b in units] for a in units])
    live = np.sqrt(np.diag(products))
    return np.clip(products / np.outer(live, live), -1, 1)


def _unit(gradients: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    return gradients / np.where(norms > 0, norms, 1)


def distances(cosine: np.ndarray) -> np.ndarray:
    """[E, E]: between gradients of length 1."""
    apart = np.sqrt(2 * np.clip(1 - (cosine + cosine.T) / 2, 0, 2))
    np.fill_diagonal(apart, 0)
    return apart


def links(cosine: np.ndarray) -> np.ndarray:
    """Scipy's linkage of E >= 2 objectives; a cluster is as wide as the two of it that are furthest apart."""
    return linkage(squareform(distances(cosine), checks=False), "complete")


def groups(names: Sequence[str], cosine: np.ndarray) -> list[list[str]]:
    """Objectives in groups, within which every cosine is at least `SAME`; large ones first."""
    if len(names) < 2:
        return [list(names)]
    numbers = fcluster(links(cosine), np.sqrt(2 * (1 - SAME)), "distance")
    clusters = [
        [name for name, cluster in zip(names, numbers, strict=True) if cluster == number]
        for number in np.unique(numbers)
    ]
    return sorted(clusters, key=lambda group: (-len(group), names.index(group[0])))


def plane(cosine: np.ndarray) -> np.ndarray:
    """[E, 2]: places whose distances are as near to those of the gradients as a plane allows, wide rather than high.

    Scikit-learn's SMACOF (metric multidimensional scaling), begun at the two largest principal axes.
    """
    apart = distances(cosine)
    square = np.square(apart)
    products = -0.5 * (square - square.mean(0) - square.mean(1)[:, None] + square.mean())
    values, axes = np.linalg.eigh(products)
    begin = axes[:, -2:] * np.sqrt(values[-2:].clip(1e-12))
    places, _ = smacof(apart, n_components=2, init=begin, n_init=1, normalized_stress=False)
    centred = places - places.mean(0)
    return centred @ np.linalg.svd(centred, full_matrices=False)[2].T
