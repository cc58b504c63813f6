"""Paired differences are those of the textbook, and the seeds that they say are needed do find them."""

import numpy as np
import pytest
from scipy import stats

from rlzoo.statistics.paired import groups_differ, mean_by_seed, paired_by_seed, pairs_needed, pairs_needed_range


def test_a_paired_difference_is_students() -> None:
    draw = np.random.default_rng(0)
    shared = draw.normal(size=10)
    first, second = shared + 0.1 * draw.normal(size=10) + 0.3, shared + 0.1 * draw.normal(size=10)
    expected = stats.ttest_rel(first, second)
    found = paired_by_seed(first, second)
    interval = expected.confidence_interval(0.95)
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-9)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), rel=1e-9)
    for looks in (1, 3):  # each of three errs a third as often
        low, high = expected.confidence_interval(1 - 0.05 / looks)
        margin = max(-low, high)
        assert found.is_within(1.001 * margin, looks) and not found.is_within(0.999 * margin, looks)
    assert found.p_value < stats.ttest_ind(first, second).pvalue / 10  # what seeds share is in no difference


def test_equal_runs_have_no_difference_and_equal_differences_are_not_infinitely_sure() -> None:
    same = paired_by_seed(np.array([0.1, 0.7, 0.3]), np.array([0.1, 0.7, 0.3]))
    assert same.is_none and same.p_value == 1 and same.is_within(0.01)
    assert not paired_by_seed(np.array([0.1, 0.2, 0.3]), np.array([0.1, 0.3, 0.2])).is_within(0.24)
    constant = paired_by_seed(np.array([0.3, 0.9, 0.5]), np.array([0.1, 0.7, 0.3]))
    assert not constant.is_none and constant.p_value == pytest.approx(2 * 0.5**3)
    assert not constant.is_within(0.3) and paired_by_seed(np.full(9, 0.2), np.zeros(9)).is_within(0.3)


@pytest.mark.parametrize("level", [0.05, 0.001])
def test_so_many_pairs_find_a_difference_in_four_of_five_tables(level: float) -> None:
    count = pairs_needed(0.5, 1.0, level)
    draws = np.random.default_rng(1).normal(0.5, 1.0, size=(2000, count))
    found = np.mean(stats.ttest_1samp(draws, 0, axis=1).pvalue < level)
    assert found == pytest.approx(0.8, abs=0.03)
    assert pairs_needed(0.0, 1.0, level) == 0 and pairs_needed(1e-6, 1.0, level) == 0


def test_a_range_of_seeds_holds_the_number_that_the_true_spread_asks_for() -> None:
    """In four of five tables, as its interval of the spread does."""
    draw, truth, inside = np.random.default_rng(2), pairs_needed(0.5, 1.0, 0.01), 0
    for _ in range(100):
        known = paired_by_seed(draw.normal(size=10), np.zeros(10))
        low, high = pairs_needed_range(0.5, known, 0.01)
        assert low <= pairs_needed(0.5, known.deviation, 0.01) <= high
        inside += low <= truth <= high
    assert inside / 100 == pytest.approx(0.8, abs=0.12)


def test_groups_of_one_method_differ_in_five_of_a_hundred_tables() -> None:
    draws = np.random.default_rng(3).normal(size=(500, 4, 10))
    assert np.mean([groups_differ(groups) < 0.05 for groups in draws]) == pytest.approx(0.05, abs=0.02)
    draws[:, 0] += 3
    assert max(groups_differ(groups) for groups in draws[:50]) < 0.05
    assert groups_differ(np.ones((4, 10))) == 1


def test_an_interval_of_a_mean_covers_it() -> None:
    draws = np.random.default_rng(4).normal(size=(2000, 5))
    covered = [known.low < 0 < known.high for known in map(mean_by_seed, draws)]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.015)
