"""What may be said of the rows of a page: intervals, differences to the baseline, verdicts."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Generic

from rlzoo.statistics.differences import Family, false_discovery_rates
from rlzoo.statistics.intervals import Estimate, share
from rlzoo.statistics.modes import SHOWN_FROM, Collapse
from rlzoo.statistics.page_tests import Measure, MeasuredPage, Name, RowTest, all_tests
from rlzoo.statistics.planning import detectable, seeds_needed

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
    """The true difference that would have been found with 80 % probability."""
    seeds_needed: int
    """How many seeds find a difference as large as this with 80 % probability; 0 if no number does."""
    seeds_range: tuple[int, int]
    """That number at both ends of `alone`, the end further from 0 before the other."""


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
    collapse: Collapse

    @property
    def is_listed(self) -> bool:
        """Whether it is among the discoveries of its measure and decoding; whatever is claimed is."""
        difference = self.difference
        is_sure = difference is not None and difference.false_discovery_rate <= FALSE_DISCOVERIES
        return self.verdict.is_claim or (is_sure and not self.verdict.is_refused)


@dataclass(frozen=True)
class Judged(Generic[Name]):
    """All rows by one measure, with verdicts."""

    rows: Mapping[Name, Measured]
    correlation: float
    """Of runs with the same seed."""
    detectable: float | None
    """The true difference that would have been found with 80 % probability, the median of the rows; None without
    verdicts."""


def judge(
    measures: Sequence[Measure[Name]],
    baseline: Name,
    equivalence: float = 0.0,
    looks: int = 1,
    swept: Sequence[Name] = (),
) -> list[Judged[Name]]:
    """Judges the rows of a page by all its measures, which are one family of tests.

    A row that is surely less than `equivalence` from the baseline is called the same. The page is one of so many
    `looks` at a grid to which seeds are added. Rows that are the same runs are tested once. `swept` are further rows
    that are the baseline with other values: differences are to the best of all (`swept_baseline.py`).
    """
    tested = all_tests(measures, baseline, looks, swept)
    tests, family, pages = tested.tests, tested.family, tested.pages
    rates = _false_discovery_rates(tests, looks)
    outside = [test.against.p_different(equivalence) if equivalence else 1.0 for test in tests]
    rows_tested = replace(family, tests=sum(test.against.has_seeds for test in tests))
    by_measure = [dict[int, _JudgedRow]() for _ in measures]
    for test, *figures in zip(tests, tested.p_values, rows_tested.adjusted(outside), rates, strict=True):
        difference = _difference(test, family, *figures)
        by_measure[test.page.number][test.row] = _JudgedRow(difference, test.against.is_split)
    return [
        _judged(measure, baseline, page, of_rows, equivalence)
        for measure, page, of_rows in zip(measures, pages, by_measure, strict=True)
    ]


@dataclass(frozen=True)
class _JudgedRow:
    difference: Difference
    is_split: bool


def _false_discovery_rates(tests: Sequence[RowTest], looks: int) -> list[float]:
    """Of each test, in the list of its measure and decoding: a list of all would not hold for each by itself."""
    rates = [1.0] * len(tests)
    for number in {test.page.number for test in tests}:
        places = [place for place, test in enumerate(tests) if test.page.number == number and test.against.has_seeds]
        listed = false_discovery_rates([tests[place].against.p_alone() for place in places], looks)
        for place, rate in zip(places, listed, strict=True):
            rates[place] = rate
    return rates


NO_DIFFERENCE = Difference(0.0, 0.0, 0.0, Estimate(0.0, 0.0, 0.0), 1.0, 1.0, 1.0, 0.0, 0, (0, 0))
"""Of a row that answered as the baseline did."""


def _judged(
    measure: Measure[Name],
    baseline: Name,
    page: MeasuredPage[Name],
    by_row: Mapping[int, _JudgedRow],
    equivalence: float,
) -> Judged[Name]:
    rows, compared, names = {}, page.first, list(page.places)
    fewest = min(len(measure.scores[names[value]].seeds) for value in page.compared)
    for name, scores in measure.scores.items():
        place = page.places[name if name in page.places else measure.same_as[name]]
        judged = by_row.get(place, _JudgedRow(NO_DIFFERENCE, is_split=False))
        difference, seeds = None if name == baseline else judged.difference, min(len(scores.seeds), fewest)
        rows[name] = Measured(
            share(compared.means[place], scores.problems),
            tuple(map(float, scores.values.mean(axis=1))),
            difference,
            verdict(difference, seeds, compared.is_unstable(place), equivalence, judged.is_split),
            compared.collapses[place],
        )
    known = [row for row in rows.values() if row.difference and row.difference.detectable > 0]
    stable = [row for row in known if not row.verdict.is_unstable]
    reach = [row.difference.detectable for row in stable or known if row.difference]
    correlation = compared.paired.correlation if compared.paired else 0.0
    return Judged(rows, correlation, statistics.median(reach) if reach else None)


def _difference(test: RowTest, family: Family, p_value: float, p_outside: float, rate: float) -> Difference:
    nearest = test.against.nearest
    compared, known = test.page.compared[nearest.baseline], nearest.known
    spread, pair = compared.spread, compared.pair(test.row)
    together, alone = test.against.interval(1 - family.level), test.against.alone()
    further, nearer = sorted((alone.low, alone.high), key=abs, reverse=True)
    ends = (test.against.mean, further, nearer if nearer * further > 0 else 0.0)
    needed = [seeds_needed(spread, pair, known, end, family.level) if spread and pair else 0 for end in ends]
    return Difference(
        test.against.mean,
        max(-1.0, together.low),
        min(1.0, together.high),
        alone=alone,
        p_value=p_value,
        p_different=p_outside,
        false_discovery_rate=rate,
        detectable=detectable(known, family.test_level, family.row_level) if pair else 0.0,
        seeds_needed=needed[0],
        seeds_range=(needed[1], needed[2]),
    )


def verdict(
    difference: Difference | None,
    seeds: int,
    is_unstable: bool = False,
    equivalence: float = 0.0,
    is_split: bool = False,
) -> Verdict:
    """What may be said of a row against the baseline; `seeds` is the smaller number of the two.

    `is_split`: the runs of one of them have two modes, of which few seeds say too little.
    """
    return Verdict(_finding(difference, seeds, is_unstable, is_split), is_unstable, equivalence)


def _finding(difference: Difference | None, seeds: int, is_unstable: bool, is_split: bool) -> Finding:
    if difference is None:
        return Finding.BASELINE
    if difference == NO_DIFFERENCE:
        return Finding.SAME_RESPONSES
    if seeds == 1:
        return Finding.ONE_SEED
    if is_split and seeds < SHOWN_FROM:
        return Finding.TWO_MODES
    if difference.p_value < SIGNIFICANCE:
        return Finding.BETTER if difference.mean > 0 else Finding.WORSE
    if difference.p_different < SIGNIFICANCE:
        return Finding.SAME
    if is_unstable:
        return Finding.UNSTABLE
    return Finding.TOO_FEW_SEEDS if difference.detectable > HOPELESS else Finding.NOT_DISTINGUISHABLE
