"""Figures without intervals: k samples of one problem, several problem sets, and steps of training."""

from collections.abc import Hashable, Mapping, Sequence
from math import comb

import numpy as np

# ---- k samples of one run --------------------------------------------------------------------------------------------


def pass_at_k(correct: np.ndarray, k: int) -> np.ndarray:
    """[problems] probability that one of k of the samples, drawn without replacement, is right.

    `correct` is [problems, samples]. Unbiased: 1 - C(n-c, k) / C(n, k) (arXiv:2107.03374).
    """
    wrong = np.asarray(correct) != 1
    return np.array([1 - comb(count, k) / comb(wrong.shape[1], k) for count in wrong.sum(axis=1).tolist()])


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


# ---- several problem sets --------------------------------------------------------------------------------------------


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


# ---- steps of training -----------------------------------------------------------------------------------------------


def area_under_curve(accuracies: Mapping[int, np.ndarray]) -> np.ndarray:
    """[problems] the mean accuracy over the steps of training, straight between evaluations; [problems] by step."""
    steps = sorted(accuracies)
    return np.trapezoid([accuracies[step] for step in steps], steps, axis=0) / (steps[-1] - steps[0])
