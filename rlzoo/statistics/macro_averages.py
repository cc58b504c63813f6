"""Averages over several problem sets, of which each counts the same however many problems it has."""

from collections.abc import Sequence

import numpy as np


def macro_values(sets: Sequence[np.ndarray]) -> np.ndarray:
    """[seeds, problems of all sets] values whose mean, and its error over problems, are those of the macro average.

    `sets` are [seeds, problems] of each set. The deviations from a set's mean weigh what the set's problems weigh in
    the macro average, so that problems are resampled as if within each set.
    """
    if len(sets) == 1:
        return sets[0]
    problems = sum(values.shape[1] for values in sets)
    means = [values.mean(axis=1, keepdims=True) for values in sets]
    deviations = [
        _weight(values.shape[1], problems) / len(sets) * (values - mean)
        for values, mean in zip(sets, means, strict=True)
    ]
    return np.asarray(np.mean(means, axis=0) + np.concatenate(deviations, axis=1))


def macro_problems(sets: Sequence[np.ndarray]) -> float:
    """How many problems of one set would say as much as these of several sets that count the same."""
    return float(len(sets) ** 2 / sum(1 / values.shape[1] for values in sets))


def _weight(count: int, problems: int) -> float:
    """Of the deviations in a set of `count` problems among all, with Bessel's correction of that set."""
    return problems / count * (count / max(1, count - 1) * (problems - 1) / problems) ** 0.5
