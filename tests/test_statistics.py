"""Intervals: they cover, they know that samples of one problem belong together, and pairing narrows them."""

import numpy as np
import pytest

from rlzoo.statistics import mean_over_problems, paired_difference


def test_the_interval_of_many_problems_is_the_normal_one() -> None:
    scores = np.random.default_rng(0).normal(size=(400, 4))
    estimate = mean_over_problems(scores)
    expected = 1.96 * scores.mean(1).std() / np.sqrt(400)
    assert estimate.mean == pytest.approx(scores.mean())
    assert estimate.half_width == pytest.approx(expected, rel=0.05)


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    generator = np.random.default_rng(1)
    covered = 0
    for _ in range(200):
        rate = generator.beta(2, 3, size=(100, 1))
        estimate = mean_over_problems(generator.random((100, 4)) < rate)
        covered += estimate.low <= 0.4 <= estimate.high
    assert 0.90 <= covered / 200 <= 0.99


def test_copies_of_samples_do_not_narrow_the_interval() -> None:
    scores = (np.random.default_rng(2).random((50, 1)) < 0.5).astype(float)
    once, copied = mean_over_problems(scores), mean_over_problems(np.repeat(scores, 8, axis=1))
    assert (once.low, once.high) == (copied.low, copied.high)


def test_pairing_removes_what_problems_have_in_common() -> None:
    generator = np.random.default_rng(3)
    difficulty = generator.normal(size=(100, 1))
    before = difficulty + 0.1 * generator.normal(size=(100, 4))
    change = paired_difference(before, before + 0.5)
    assert (change.low, change.high) == pytest.approx((0.5, 0.5))
    assert mean_over_problems(before).half_width > 0.1


def test_equal_scores_have_an_interval_of_no_width() -> None:
    assert mean_over_problems(np.ones((5, 3))).half_width == 0
