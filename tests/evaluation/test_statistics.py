"""Intervals: they cover, they know what belongs together, and where a closed form exists they are that."""

import runpy
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rlzoo.evaluation.statistics import (
    difference_of_runs,
    distribution,
    holm,
    macro_average,
    majority_at_k,
    mean_over_problems,
    mean_over_runs,
    paired_difference,
    pass_at_k,
    probability_of_improvement,
)

COVERAGE = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "coverage" / "coverage.py"))


# ---- one run ---------------------------------------------------------------------------------------------------------


def test_the_interval_of_many_problems_is_the_normal_one() -> None:
    scores = np.random.default_rng(0).normal(size=(400, 4))
    estimate = mean_over_problems(scores)
    expected = 1.96 * scores.mean(1).std() / np.sqrt(400)
    assert estimate.mean == pytest.approx(scores.mean())
    assert estimate.half_width == pytest.approx(expected, rel=0.05)


def test_the_interval_of_one_run_is_the_percentile_bootstrap_of_scipy() -> None:
    scores = np.random.default_rng(7).random((60, 2)) ** 3
    estimate = mean_over_problems(scores)
    bootstrap = stats.bootstrap((scores.mean(1),), np.mean, method="percentile", rng=np.random.default_rng(1))
    low, high = bootstrap.confidence_interval
    correction = np.sqrt(60 / 59)
    assert estimate.low - estimate.mean == pytest.approx((low - estimate.mean) * correction, rel=0.05)
    assert estimate.high - estimate.mean == pytest.approx((high - estimate.mean) * correction, rel=0.05)


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


# ---- runs of several seeds -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_where_problems_do_not_matter_it_is_the_t_test_over_seeds(seeds: int) -> None:
    by_seed = np.random.default_rng(4).normal(0.1, 0.1, size=seeds)
    scores = np.broadcast_to(by_seed[:, None, None], (seeds, 20, 4))
    change = difference_of_runs(scores, np.zeros_like(scores))
    expected = stats.ttest_1samp(by_seed, 0.0)
    assert (change.low, change.high) == pytest.approx(tuple(expected.confidence_interval()))
    assert change.p_value == pytest.approx(expected.pvalue)
    assert change.p_improvement == pytest.approx(stats.ttest_1samp(by_seed, 0.0, alternative="less").pvalue)


def test_where_seeds_hardly_matter_it_is_the_interval_over_problems() -> None:
    generator = np.random.default_rng(5)
    by_problem, by_seed = generator.random(300), np.array([-1e-4, 0.0, 1e-4])
    scores = (by_problem + by_seed[:, None])[:, :, None]
    assert mean_over_runs(scores).half_width == pytest.approx(mean_over_runs(scores[1:2]).half_width, rel=0.02)


def test_with_many_seeds_and_problems_it_is_the_crossed_analysis_of_variance() -> None:
    generator = np.random.default_rng(6)
    seed_effects, problem_effects = 0.03 * generator.normal(size=(80, 1)), 0.3 * generator.normal(size=(1, 100))
    scores = seed_effects + problem_effects + 0.1 * generator.normal(size=(80, 100))
    by_seed, by_problem = scores.mean(1).var(ddof=1) / 80, scores.mean(0).var(ddof=1) / 100
    residual = scores - scores.mean(1, keepdims=True) - scores.mean(0) + scores.mean()
    variance = by_seed + by_problem - (residual**2).sum() / (79 * 99) / (80 * 100)
    low, high = distribution(scores, 1).interval()
    assert (high - low) / 2 == pytest.approx(1.96 * np.sqrt(variance), rel=0.03)


@pytest.mark.parametrize(
    ("problem_effect", "seed_effect"), [(0.0, 0.01), (0.1, 0.0)], ids=["seeds matter", "problems matter"]
)
def test_the_interval_of_a_difference_covers_the_truth_in_93_to_97_percent(
    problem_effect: float, seed_effect: float
) -> None:
    generator = np.random.default_rng(11)
    covered = 0
    for _ in range(2000):
        scores = COVERAGE["simulate"](generator, (3, 30, 8), seed_effect, problem_effect)
        covered += 0.025 <= distribution(scores, 8).below(COVERAGE["DIFFERENCE"]) <= 0.975
    assert 0.93 <= covered / 2000 <= 0.97


def test_identical_methods_are_called_different_in_at_most_5_percent() -> None:
    generator = np.random.default_rng(12)
    called, error = 0, np.sqrt(0.05 * 0.95 / 2000)
    for _ in range(2000):
        models = 0.5 + 0.02 * generator.normal(size=(2, 3, 1)) + 0.2 * generator.uniform(-1, 1, size=(1, 1, 30))
        method, same = generator.binomial(8, models) / 8
        called += not 0.025 <= distribution(method - same, 8).below(0.0) <= 0.975
    assert called / 2000 <= 0.05 + 2 * error


def test_runs_that_score_alike_still_leave_doubt_about_other_seeds() -> None:
    scores = np.broadcast_to(np.array([1.0, 1.0, 0.0, 0.0])[:, None], (3, 4, 2))
    change = difference_of_runs(scores, np.zeros_like(scores))
    assert change.half_width > 0 and change.p_value > 0


# ---- many comparisons ------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.001, 0.999))
def test_holm_calls_what_the_step_down_procedure_calls(p_values: list[float], level: float) -> None:
    called = set()
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        if p_values[index] * (len(p_values) - rank) > level:
            break
        called.add(index)
    assert {index for index, adjusted in enumerate(holm(p_values)) if adjusted <= level} == called


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.lists(st.integers(0, 5), min_size=1, max_size=6))
def test_the_probability_of_improvement_is_mann_whitneys(runs: list[int], baseline: list[int]) -> None:
    statistic = stats.mannwhitneyu(runs, baseline).statistic
    assert probability_of_improvement(runs, baseline) == pytest.approx(statistic / (len(runs) * len(baseline)))


# ---- k samples -------------------------------------------------------------------------------------------------------


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


def test_the_macro_average_weighs_benchmarks_alike_and_resamples_each() -> None:
    generator = np.random.default_rng(0)
    large, small = generator.random((400, 1)), generator.random((30, 1))
    both = macro_average([large, small])
    assert both.mean == pytest.approx((large.mean() + small.mean()) / 2)
    apart = [mean_over_problems(one).half_width for one in (large, small)]
    assert both.half_width == pytest.approx(np.hypot(*apart) / 2, rel=0.05)
    twins = macro_average([small, small])
    assert twins.half_width == pytest.approx(apart[1] / np.sqrt(2), rel=0.05)
