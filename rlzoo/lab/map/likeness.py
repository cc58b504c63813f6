"""Which objectives are alike: cosines of their gradients on the same rollouts, groups, and a plane."""

from collections.abc import Sequence

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from sklearn.manifold import smacof

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
