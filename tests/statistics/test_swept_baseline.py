"""A baseline of several values: rows are compared with the best, and what selects it is in interval and verdict."""

from pathlib import Path

import numpy as np
import pytest

from rlzoo.statistics.differences import RunScores
from rlzoo.statistics.intervals import Distribution, SeedError
from rlzoo.statistics.page_tests import Measure, all_tests
from rlzoo.statistics.swept_baseline import AgainstBest, AgainstValue
from rlzoo.statistics.verdicts import Finding, Measured, judge
from tests.statistics.test_coverage_table import at_most_5_percent

TABLE = Path(__file__).parents[2] / "benchmarks" / "coverage" / "results" / "swept.md"
SEEDS = 5


def measured(centers: dict[str, float]) -> Measure[str]:
    """Rows of these accuracies, runs of which deviate by half a point."""
    generator = np.random.default_rng(4)
    difficulty = 0.6 * generator.random(80)
    scores = {}
    for name, center in centers.items():
        runs = difficulty + center + 0.005 * generator.normal(size=(SEEDS, 1)) - difficulty.mean()
        scores[name] = RunScores(tuple(range(SEEDS)), generator.binomial(64, np.clip(runs, 0, 1)) / 64)
    return Measure(scores, 1 / 64, {name: name for name in centers})


def against(*centers: float, split: int = -1) -> AgainstBest:
    """A row that did so much better than each value."""
    known = [Distribution(center, [SeedError(1.0, 0.01, 20.0)], np.linspace(-0.01, 0.01, 250)) for center in centers]
    return AgainstBest([AgainstValue(place, one, place == split) for place, one in enumerate(known)])


def findings(centers: dict[str, float], *swept: str) -> dict[str, Finding]:
    """Against `a` and further values."""
    (page,) = judge([measured(centers)], "a", swept=swept)
    return {name: row.verdict.finding for name, row in page.rows.items()}


def difference_of(measured_row: Measured) -> tuple[float, float, float]:
    """With the interval that holds for the page."""
    assert measured_row.difference
    return measured_row.difference.mean, measured_row.difference.low, measured_row.difference.high


def test_better_is_better_than_each_value_and_worse_is_worse_than_any() -> None:
    centers = {"a": 0.5, "low": 0.3, "between": 0.4, "above": 0.6, "below": 0.2}
    found = findings(centers, "low")
    assert found["above"] is Finding.BETTER and found["between"] is found["below"] is Finding.WORSE
    high = findings({**centers, "low": 0.6}, "low")
    assert high["above"] is Finding.NOT_DISTINGUISHABLE and high["a"] is Finding.BASELINE


def test_a_value_of_the_baseline_is_never_better_than_the_best() -> None:
    """Also where it is better than what was chosen as the baseline."""
    (page,) = judge([measured({"a": 0.5, "best": 0.6, "low": 0.3})], "a", swept=["best", "low"])
    assert difference_of(page.rows["best"])[0] == difference_of(page.rows["best"])[2] == 0.0
    assert page.rows["best"].verdict.finding is Finding.NOT_DISTINGUISHABLE
    assert page.rows["low"].verdict.finding is Finding.WORSE
    assert findings({"a": 0.5, "best": 0.6, "low": 0.3})["best"] is Finding.BETTER


def test_the_interval_to_the_best_value_is_that_of_the_smallest_difference() -> None:
    """If the intervals to all values hold, that of the smallest does."""
    each = against(0.03, -0.02, 0.05)
    intervals = [value.known.interval(0.99) for value in each.each]
    found = each.interval(0.99)
    assert (found.mean, found.low, found.high) == (
        -0.02,
        min(one.low for one in intervals),
        min(one.high for one in intervals),
    )


def test_every_value_is_a_comparison_of_its_own_in_the_family_and_a_pair_is_tested_once() -> None:
    centers = {"a": 0.5, "b": 0.49, "c": 0.48, "d": 0.47}
    for swept, pairs in (((), 3), (("b",), 5), (("b", "c"), 6), (("b", "c", "d"), 6)):
        tested = all_tests([measured(centers)], "a", swept=swept)
        assert tested.family.tests == pairs and tested.family.rows == 4
        assert len(tested.tests) == 3


def test_p_values_to_any_value_are_corrected_for_their_number_and_to_each_are_not() -> None:
    above, below, once = against(0.05, 0.04), against(-0.05, 0.04), against(-0.05)
    p_values = [value.known.p_value() for value in above.each]
    assert above.p_value(p_values) == above.p_alone() == max(p_values)
    assert below.p_value([0.01, 0.5]) == 0.01
    assert below.p_alone() == pytest.approx(1 - (1 - once.p_alone()) ** 2, rel=1e-6)
    assert once.p_alone() == once.each[0].known.p_value()
    assert once.interval(0.95) == once.alone() == once.each[0].known.interval()


def test_two_modes_of_a_value_forbid_what_leans_on_it_and_no_more() -> None:
    assert against(0.05, 0.04, split=1).is_split, "better than each needs this one too"
    assert not against(-0.05, -0.04, split=1).is_split and against(-0.05, split=0).is_split
    assert against(-0.05, -0.04, split=1).p_value([0.2, 0.001]) == 0.2, "worse than the other alone"


def test_pages_whose_baseline_was_swept_err_in_at_most_5_percent_and_find_more_than_where_seeds_are_split() -> None:
    heading, _, *lines = TABLE.read_text(encoding="utf-8").splitlines()
    names = [name.strip() for name in heading.split("|")[1:-1]]
    rows = [dict(zip(names, (cell.strip() for cell in line.split("|")[1:-1]), strict=True)) for line in lines]
    assert {row["seeds"] for row in rows} == {"3", "10"}
    for row in rows:
        assert at_most_5_percent(float(row["each a comparison: false"]), float(row["pages"])), row["scenario"]
        apart, split = (
            sum(float(row[f"{way}: {side} found"]) for side in ("better", "worse"))
            for way in ("each a comparison", "split by seed")
        )
        assert apart >= split, row["scenario"]
