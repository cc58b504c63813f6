"""Figures without intervals, each held to a calculation by another way."""

from itertools import combinations

import numpy as np
import pytest

from rlzoo.statistics.aggregates import (
    area_under_curve,
    macro_values,
    majority_at_k,
    pass_at_k,
)
from rlzoo.statistics.curves import Curves, accuracies_at
from rlzoo.statistics.intervals import distribution


def test_the_area_under_a_curve_is_its_mean_over_the_steps() -> None:
    curve = {0: 0.1, 10: 0.5, 40: 0.2}
    finely = np.interp(np.linspace(0, 40, 400_001), list(curve), list(curve.values()))
    problems = {step: np.array([accuracy, 1 - accuracy]) for step, accuracy in curve.items()}
    assert area_under_curve(problems) == pytest.approx([finely.mean(), 1 - finely.mean()], abs=1e-5)


def test_values_of_a_macro_average_have_its_mean_and_its_interval() -> None:
    generator = np.random.default_rng(2)
    sets = [generator.random((1, problems)) ** power for problems, power in ((30, 1), (500, 3), (40, 0.2))]
    error = np.sqrt(sum(it.var(ddof=1) / it.size for it in sets)) / len(sets)
    found = distribution(macro_values(sets), 1).interval()
    assert found.mean == pytest.approx(np.mean([it.mean() for it in sets]))
    assert found.half_width == pytest.approx(1.96 * error, rel=0.03)


def test_pass_at_k_is_the_share_of_subsets_with_a_right_sample() -> None:
    correct = np.array([[0, 0, 0, 0, 0], [1, 0, 0, 0, 0], [1, 0, 1, 0, 0], [0, 1, 1, 1, 1]])
    for k in range(1, 6):
        subsets = [[max(row[list(chosen)]) for chosen in combinations(range(5), k)] for row in correct]
        assert pass_at_k(correct, k) == pytest.approx(np.mean(subsets, axis=1))


@pytest.mark.parametrize(
    ("answers", "share"),
    [
        ("rrr", 1.0),
        ("rww", 0.0),
        ("rwv", 1 / 3),
        ("rrwwv", 1 / 2),
        ("Rrww", 1 / 2),
        ("r---", 1.0),
        ("----", 0.0),
        ("w---", 0.0),
    ],
)
def test_the_majority_is_right_by_the_votes_it_gets(answers: str, share: float) -> None:
    """Letters are answers; r and R are ways to write the right one; a dash is none."""
    correct = [letter in "rR" for letter in answers]
    assert majority_at_k(np.array([correct]), [[None if a == "-" else a for a in answers]]) == pytest.approx([share])


def test_accuracy_at_a_compute_lies_on_the_line_between_two_evaluations() -> None:
    spent = np.linspace(0, 330_000, 12)
    accuracy = 0.4 + 0.3 * (1 - np.exp(-spent / 90_000)) + 0.01 * np.arange(4)[:, None]
    row, between = Curves(np.tile(spent, (4, 1)), accuracy), (spent[5] + spent[6]) / 2
    (estimate,) = accuracies_at([row], between)
    assert estimate is not None and estimate.low < estimate.mean < estimate.high
    assert estimate.mean == pytest.approx(row.accuracy[:, 5:7].mean())
    assert accuracies_at([Curves(row.compute[:1], row.accuracy[:1])], between) == [None]


def test_the_interval_at_a_compute_is_narrower_among_rows_that_are_alike() -> None:
    noise = 0.01 * np.random.default_rng(1).normal(size=(8, 3, 1))
    spent = np.tile(np.arange(12.0), (3, 1))
    rows = [Curves(spent, 0.5 + 0.01 * spent + own) for own in noise]
    (alone,), together = accuracies_at(rows[:1], 5.5), accuracies_at(rows, 5.5)
    assert alone and together[0]
    assert together[0].mean == alone.mean and together[0].half_width < alone.half_width
