"""Intervals: they cover, they know what belongs together, and where a closed form exists they are that."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from rlzoo.statistics.intervals import (
    LEVEL,
    Distribution,
    distribution,
    macro_average,
    mean_over_problems,
    paired_difference,
    share,
)


def test_a_run_need_not_wait_for_what_only_other_statistics_import() -> None:
    code = "import sys, rlzoo.evaluation.evaluate; sys.exit('scipy.stats' in sys.modules)"
    assert subprocess.run([sys.executable, "-P", "-c", code], check=False).returncode == 0


# ---- one run ---------------------------------------------------------------------------------------------------------


def test_the_interval_of_many_problems_is_the_normal_one() -> None:
    scores = np.random.default_rng(0).random(size=(4000, 4))
    estimate = mean_over_problems(scores)
    expected = 1.96 * scores.mean(1).std() / np.sqrt(4000)
    assert estimate.mean == pytest.approx(scores.mean())
    assert estimate.half_width == pytest.approx(expected, rel=0.05)


def test_the_interval_of_a_difference_in_one_run_is_the_percentile_bootstrap_of_scipy() -> None:
    scores = np.random.default_rng(7).random((60, 2)) ** 3
    estimate = paired_difference(np.zeros_like(scores), scores)
    bootstrap = stats.bootstrap((scores.mean(1),), np.mean, method="percentile", rng=np.random.default_rng(1))
    low, high = bootstrap.confidence_interval
    correction = np.sqrt(60 / 59)
    assert estimate.low - estimate.mean == pytest.approx((low - estimate.mean) * correction, rel=0.05)
    assert estimate.high - estimate.mean == pytest.approx((high - estimate.mean) * correction, rel=0.05)


def test_none_of_thirty_may_still_be_a_ninth() -> None:
    none, all_of_them = mean_over_problems(np.zeros((30, 8))), mean_over_problems(np.ones((30, 8)))
    assert (none.mean, none.low) == (0.0, 0.0) and none.high == pytest.approx(1 - 0.025 ** (1 / 30))
    assert (all_of_them.low, all_of_them.high) == pytest.approx((0.025 ** (1 / 30), 1.0))


def test_independent_answers_have_the_interval_of_clopper_and_pearson() -> None:
    scores = (np.arange(400) < 12).astype(float)[:, None]
    estimate, exact = mean_over_problems(scores), stats.binomtest(12, 400).proportion_ci(LEVEL)
    assert (estimate.low, estimate.high) == pytest.approx((exact.low, exact.high), rel=0.06)


@pytest.mark.parametrize("rate", [0.01, 0.03, 0.1, 0.9, 0.99])
def test_the_interval_holds_near_the_ends(rate: float) -> None:
    """Problems that are independent and have a few answers each."""
    generator, covered = np.random.default_rng(13), 0
    for _ in range(400):
        right = generator.binomial(4, rate, size=30) / 4
        deviations = 1.0 * stats.norm.ppf((np.arange(250) + 0.5) / 250) * right.std(ddof=1) / np.sqrt(30)
        found = share(Distribution(right.mean(), [], deviations), 30)
        covered += found.low <= rate <= found.high
        assert 0 <= found.low <= found.mean <= found.high <= 1
    assert covered / 400 >= 0.93


def test_copies_of_samples_do_not_narrow_the_interval() -> None:
    scores = (np.random.default_rng(2).random((50, 1)) < 0.5).astype(float)
    once, copied = mean_over_problems(scores), mean_over_problems(np.repeat(scores, 8, axis=1))
    assert (once.low, once.high) == (copied.low, copied.high)


def test_pairing_removes_what_problems_have_in_common() -> None:
    generator = np.random.default_rng(3)
    before = 0.5 * generator.random(size=(100, 1)) + 0.1 * generator.random(size=(100, 4))
    change = paired_difference(before, before + 0.25)
    assert (change.low, change.high) == pytest.approx((0.25, 0.25))
    assert mean_over_problems(before).half_width > 0.02


# ---- runs of several seeds -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_where_problems_do_not_matter_it_is_the_t_test_over_seeds(seeds: int) -> None:
    by_seed = np.random.default_rng(4).normal(0.1, 0.1, size=seeds)
    known = distribution(np.broadcast_to(by_seed[:, None], (seeds, 20)), 4)
    expected, interval = stats.ttest_1samp(by_seed, 0.0), known.interval()
    assert (interval.low, interval.high) == pytest.approx(tuple(expected.confidence_interval()))
    assert known.p_value() == pytest.approx(expected.pvalue)


def test_with_many_seeds_and_problems_it_is_the_crossed_analysis_of_variance() -> None:
    generator = np.random.default_rng(6)
    seed_effects, problem_effects = 0.03 * generator.normal(size=(80, 1)), 0.3 * generator.normal(size=(1, 100))
    scores = seed_effects + problem_effects + 0.1 * generator.normal(size=(80, 100))
    by_seed, by_problem = scores.mean(1).var(ddof=1) / 80, scores.mean(0).var(ddof=1) / 100
    residual = scores - scores.mean(1, keepdims=True) - scores.mean(0) + scores.mean()
    variance = by_seed + by_problem - (residual**2).sum() / (79 * 99) / (80 * 100)
    assert distribution(scores, 1).interval().half_width == pytest.approx(1.96 * np.sqrt(variance), rel=0.03)


def test_the_macro_average_weighs_benchmarks_alike_and_resamples_each() -> None:
    generator = np.random.default_rng(0)
    large, small = generator.random((400, 1)), generator.random((30, 1))
    both = macro_average([large, small])
    assert both.mean == pytest.approx((large.mean() + small.mean()) / 2)
    apart = [mean_over_problems(one).half_width for one in (large, small)]
    assert both.half_width == pytest.approx(np.hypot(*apart) / 2, rel=0.05)
    twins = macro_average([small, small])
    assert twins.half_width == pytest.approx(apart[1] / np.sqrt(2), rel=0.05)
