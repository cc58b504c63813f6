"""What may be said of the rows of a leaderboard: intervals, differences to the baseline, verdicts."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Generic

from rlzoo.statistics.differences import Name
from rlzoo.statistics.family import (
    ComparedRows,
    Family,
    Measure,
    RowTest,
    all_tests,
    false_discovery_rates,
    p_different,
)
from rlzoo.statistics.intervals import Estimate, share
from rlzoo.statistics.planning import detectable, seeds_needed
from rlzoo.statistics.spread import MODES_SHOWN_FROM

SIGNIFICANCE = 0.05
FALSE_DISCOVERIES = 0.05
"""The share of a list of discoveries that may be false."""
HOPELESS = 0.5
"""If so large a difference would have been missed, the seeds are too few to say that nothing was found."""


@dataclass(frozen=True)
class Difference(Estimate):
    """A row minus the baseline; all intervals of a page hold together in 95 % of cases."""

    alone: Estimate
    """With the 95 % interval of this row if it were the only one."""
    p_value: float
    """Two-sided, corrected for everything that the page compares."""
    p_different: float
    """Of the row being at least `equivalence` better or worse, corrected; 1 if that is not asked."""
    false_discovery_rate: float
    """The share that is expected to be false among the rows whose differences by this measure and decoding are at least
    as sure as this one."""
    detectable: float
    """The true difference that would have been found with 80 % probability; 0 where that is not known."""
    seeds_needed: int
    """How many seeds find a difference as large as this with 80 % probability; 0 if no number does."""
    seeds_range: tuple[int, int]
    """That number at both ends of `alone`, the end further from 0 before the other."""

    @property
    def is_planned(self) -> bool:
        """Whether anything is known of what further seeds find: not of one seed, and not of the baseline's answers."""
        return self.detectable > 0


class Finding(Enum):
    """What may be said of a row against the baseline, what is claimed before the rest."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "the same"
    NOT_DISTINGUISHABLE = "not distinguishable"
    TWO_MODES = "two modes"
    UNSTABLE = "unstable"
    TOO_FEW_SEEDS = "too few seeds"
    ONE_SEED = "one seed"
    SAME_RESPONSES = "the same responses"
    BASELINE = "baseline"


@dataclass(frozen=True)
class Verdict:
    """A finding, and what belongs to it."""

    finding: Finding
    is_unstable: bool = False
    """The row's runs lie further apart than those of the other rows."""
    margin: float = 0.0
    """Of `Finding.SAME`: the row is surely less than this from the baseline."""

    @property
    def is_refused(self) -> bool:
        """Whether the runs say too little for any claim, however far apart they are."""
        return self.finding in (Finding.TWO_MODES, Finding.ONE_SEED, Finding.SAME_RESPONSES, Finding.BASELINE)

    @property
    def is_claim(self) -> bool:
        """Whether the row is called better or worse."""
        return self.finding in (Finding.BETTER, Finding.WORSE)

    @property
    def is_decided(self) -> bool:
        """Whether the row is called better, worse or the same."""
        return self.is_claim or self.finding in (Finding.SAME, Finding.SAME_RESPONSES)


@dataclass(frozen=True)
class Measured:
    """A row by one measure and decoding. `difference` is None for the baseline."""

    estimate: Estimate
    by_seed: tuple[float, ...]
    difference: Difference | None
    verdict: Verdict

    @property
    def is_listed(self) -> bool:
        """Whether it is among the discoveries of its measure and decoding; whatever is claimed is."""
        difference = self.difference
        is_sure = difference is not None and difference.false_discovery_rate <= FALSE_DISCOVERIES
        return self.verdict.is_claim or (is_sure and not self.verdict.is_refused)


@dataclass(frozen=True)
class Verdicts(Generic[Name]):
    """All rows by one measure, with verdicts."""

    rows: Mapping[Name, Measured]
    correlation: float
    """Of runs with the same seed."""
    detectable: float | None
    """The true difference that would have been found with 80 % probability, the median of the rows; None without
    verdicts."""


def judge(
    measures: Sequence[Measure[Name]], baseline: Name, equivalence: float = 0.0, looks: int = 1
) -> list[Verdicts[Name]]:
    """Judges the rows of a leaderboard by all its measures, which are one family of tests.

    A row that is surely less than `equivalence` from the baseline is called the same. The leaderboard is one of
    `looks` at a grid to which seeds are added. Rows that are the same runs are tested once.
    """
    tested = all_tests(measures, baseline, looks)
    tests, family = tested.tests, tested.family
    rates = _false_discovery_rates(tests, looks)
    outside = [p_different(test.difference, equivalence) if equivalence else 1.0 for test in tests]
    rows_tested = replace(family, tests=sum(test.has_seeds for test in tests))
    by_measure = [dict[int, Difference]() for _ in measures]
    for test, *figures in zip(tests, tested.p_values, rows_tested.adjusted(outside), rates, strict=True):
        by_measure[test.rows.number][test.row] = _difference(test, family, *figures)
    return [
        _verdicts(measure, baseline, compared, of_rows, equivalence)
        for measure, compared, of_rows in zip(measures, tested.measured, by_measure, strict=True)
    ]


def _false_discovery_rates(tests: Sequence[RowTest], looks: int) -> list[float]:
    """Of each test, in the list of its measure and decoding: a list of all would not hold for each by itself."""
    rates = [1.0] * len(tests)
    for number in {test.rows.number for test in tests}:
        places = [place for place, test in enumerate(tests) if test.rows.number == number and test.has_seeds]
        listed = false_discovery_rates([tests[place].difference.p_value() for place in places], looks)
        for place, rate in zip(places, listed, strict=True):
            rates[place] = rate
    return rates


NO_DIFFERENCE = Difference(0.0, 0.0, 0.0, Estimate(0.0, 0.0, 0.0), 1.0, 1.0, 1.0, 0.0, 0, (0, 0))
"""Of a row that answered as the baseline did."""


def _verdicts(
    measure: Measure[Name],
    baseline: Name,
    compared: ComparedRows[Name],
    by_row: Mapping[int, Difference],
    equivalence: float,
) -> Verdicts[Name]:
    rows, known, of_baseline = {}, compared.differences, len(measure.scores[baseline].seeds)
    for name, scores in measure.scores.items():
        place = compared.places[name if name in compared.places else measure.same_as[name]]
        difference = None if name == baseline else by_row.get(place, NO_DIFFERENCE)
        seeds, is_split = min(len(scores.seeds), of_baseline), place in by_row and known.has_two_modes(place)
        rows[name] = Measured(
            share(known.means[place], scores.problems),
            tuple(map(float, scores.values.mean(axis=1))),
            difference,
            verdict(difference, seeds, known.is_unstable(place), equivalence, is_split),
        )
    tested = [row for row in rows.values() if row.difference and row.difference.is_planned]
    stable = [row for row in tested if not row.verdict.is_unstable]
    reach = [row.difference.detectable for row in stable or tested if row.difference]
    correlation = known.paired.correlation if known.paired else 0.0
    return Verdicts(rows, correlation, statistics.median(reach) if reach else None)


def _difference(test: RowTest, family: Family, p_value: float, p_outside: float, rate: float) -> Difference:
    compared, known = test.rows.differences, test.difference
    spread, pair = compared.spread, compared.pair(test.row)
    together, alone = (_possible(interval) for interval in (known.interval(1 - family.level), known.interval()))
    further, nearer = sorted((alone.low, alone.high), key=abs, reverse=True)
    ends = (known.center, further, nearer if nearer * further > 0 else 0.0)
    needed = [seeds_needed(spread, pair, known, end, family.level) if spread and pair else 0 for end in ends]
    return Difference(
        known.center,
        together.low,
        together.high,
        alone=alone,
        p_value=p_value,
        p_different=p_outside,
        false_discovery_rate=rate,
        detectable=detectable(known, family.test_level, family.row_level) if pair else 0.0,
        seeds_needed=needed[0],
        seeds_range=(needed[1], needed[2]),
    )


def _possible(interval: Estimate) -> Estimate:
    """The part of an interval that a difference of two shares can be in."""
    return replace(interval, low=max(-1.0, interval.low), high=min(1.0, interval.high))


def verdict(
    difference: Difference | None,
    seeds: int,
    is_unstable: bool = False,
    equivalence: float = 0.0,
    is_split: bool = False,
) -> Verdict:
    """The verdict on a row against the baseline; `seeds` is the smaller number of the two.

    `is_split`: the runs of one of them have two modes, which takes more seeds to decide.
    """
    return Verdict(_finding(difference, seeds, is_unstable, is_split), is_unstable, equivalence)


def _finding(difference: Difference | None, seeds: int, is_unstable: bool, is_split: bool) -> Finding:
    if difference is None:
        return Finding.BASELINE
    if difference == NO_DIFFERENCE:
        return Finding.SAME_RESPONSES
    if seeds == 1:
        return Finding.ONE_SEED
    if is_split and seeds < MODES_SHOWN_FROM:
        return Finding.TWO_MODES
    if difference.p_value < SIGNIFICANCE:
        return Finding.BETTER if difference.mean > 0 else Finding.WORSE
    if difference.p_different < SIGNIFICANCE:
        return Finding.SAME
    if is_unstable:
        return Finding.UNSTABLE
    return Finding.TOO_FEW_SEEDS if difference.detectable > HOPELESS else Finding.NOT_DISTINGUISHABLE
