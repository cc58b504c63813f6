"""What may be said of the rows of a page: intervals, differences to the baseline, verdicts."""

import statistics
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from rlzoo.statistics.differences import Differences, Family, RunScores, compare_rows, false_discovery_rates
from rlzoo.statistics.doubt import share_doubt
from rlzoo.statistics.intervals import Distribution, Estimate, share
from rlzoo.statistics.modes import SHOWN_FROM, Collapse
from rlzoo.statistics.planning import detectable, seeds_needed

SIGNIFICANCE = 0.05
FALSE_DISCOVERIES = 0.05
"""The share of a list of discoveries that may be false."""
HOPELESS = 0.5
"""If so large a difference would have been missed, the seeds are too few to say that nothing was found."""
Name = TypeVar("Name", bound=Hashable)
"""What a row is known by."""


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
class Measure(Generic[Name]):
    """What the runs of all rows scored by one measure with one decoding."""

    scores: Mapping[Name, RunScores]
    step: float
    """Values of a problem are multiples of it."""
    same_as: Mapping[Name, Name]
    """For each row the first that answered just the same with the same seeds, itself if none did. A row that answered
    as the baseline did, which may have further seeds, has the baseline here."""
    by: str = ""
    """What is measured, such as pass@k. Decodings that are measured by the same have one doubt of a row in common."""
    problems: Hashable = ""
    """The set that is answered. A row may be stable on one and not on another."""
    is_average: bool = False
    """Whether it is the average of sets that are judged as well: whoever doubts it doubts one of them."""

    def distinct(self) -> list[Name]:
        """Rows of which no two are the same runs."""
        return [
            name for name, other in self.same_as.items() if self.scores[name].seeds != self.scores[other].seeds
        ] + list(dict.fromkeys(self.same_as.values()))


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
    measures: Sequence[Measure[Name]], baseline: Name, equivalence: float = 0.0, looks: int = 1
) -> list[Judged[Name]]:
    """Judges the rows of a page by all its measures, which are one family of tests.

    A row that is surely less than `equivalence` from the baseline is called the same. The page is one of so many
    `looks` at a grid to which seeds are added. Rows that are the same runs are tested once.
    """
    places = [{name: place for place, name in enumerate(measure.distinct())} for measure in measures]
    compared = _compared(measures, places, baseline)
    tests, by_measure = list[tuple[int, int, Distribution]](), [dict[int, Difference]() for _ in measures]
    for number, (measure, place) in enumerate(zip(measures, places, strict=True)):
        rows = [place[name] for name in place if measure.same_as[name] != baseline]
        tests += [(number, row, known) for row in rows if (known := compared[number].to_baseline[row])]
    tests.sort(key=lambda test: not test[-1].seeds)  # those of a single seed stay outside the family
    several = {
        problems: max(len(compared[number].places) for number in numbers)
        for problems, numbers in _by_problems(measures).items()
        if not all(measures[number].is_average for number in numbers)
    }
    family = Family(sum(bool(known.seeds) for *_, known in tests), looks, sum(several.values()))
    if_stable = [known.if_stable().p_value() for *_, known in tests]
    corrected = family.adjusted([known.p_value() for *_, known in tests], if_stable)
    rates = _false_discovery_rates(tests, looks)
    outside = [p_different(known, equivalence) if equivalence else 1.0 for *_, known in tests]
    for (number, row, known), *p_values in zip(tests, corrected, family.adjusted(outside), rates, strict=True):
        by_measure[number][row] = _difference(compared[number], row, known, family, *p_values)
    return [
        _judged(measure, baseline, place, differences, by_row, equivalence)
        for measure, place, differences, by_row in zip(measures, places, compared, by_measure, strict=True)
    ]


def _false_discovery_rates(tests: Sequence[tuple[int, int, Distribution]], looks: int) -> list[float]:
    """Of each test, in the list of its measure and decoding: a list of all would not hold for each by itself."""
    rates = [1.0] * len(tests)
    for number in {number for number, *_ in tests}:
        places = [place for place, (of_list, _, known) in enumerate(tests) if of_list == number and known.seeds]
        listed = false_discovery_rates([tests[place][-1].p_value() for place in places], looks)
        for place, rate in zip(places, listed, strict=True):
            rates[place] = rate
    return rates


def _compared(
    measures: Sequence[Measure[Name]], places: Sequence[Mapping[Name, int]], baseline: Name
) -> list[Differences]:
    """With one doubt of each row on each set of problems."""
    compared = [
        compare_rows([measure.scores[name] for name in place], place[baseline], measure.step)
        for measure, place in zip(measures, places, strict=True)
    ]
    for numbers in _by_problems(measures).values():
        names, by = [list(places[number]) for number in numbers], [measures[number].by for number in numbers]
        shared = share_doubt([compared[number] for number in numbers], names, by)
        for number, differences in zip(numbers, shared, strict=True):
            compared[number] = differences
    return compared


def _by_problems(measures: Sequence[Measure[Name]]) -> dict[Hashable, list[int]]:
    """Which measures are of each set."""
    numbers: dict[Hashable, list[int]] = {}
    for number, measure in enumerate(measures):
        numbers.setdefault(measure.problems, []).append(number)
    return numbers


NO_DIFFERENCE = Difference(0.0, 0.0, 0.0, Estimate(0.0, 0.0, 0.0), 1.0, 1.0, 1.0, 0.0, 0, (0, 0))
"""Of a row that answered as the baseline did."""


def _judged(
    measure: Measure[Name],
    baseline: Name,
    places: Mapping[Name, int],
    compared: Differences,
    by_row: Mapping[int, Difference],
    equivalence: float,
) -> Judged[Name]:
    rows = {}
    for name, scores in measure.scores.items():
        place = places[name if name in places else measure.same_as[name]]
        difference = None if name == baseline else by_row.get(place, NO_DIFFERENCE)
        fewest = min(len(scores.seeds), len(measure.scores[baseline].seeds))
        is_split = any(compared.collapses[row].runs for row in (place, compared.baseline))
        rows[name] = Measured(
            share(compared.means[place], scores.problems),
            tuple(map(float, scores.values.mean(axis=1))),
            difference,
            verdict(difference, fewest, compared.is_unstable(place), equivalence, is_split),
            compared.collapses[place],
        )
    known = [row for row in rows.values() if row.difference and row.difference.detectable > 0]
    stable = [row for row in known if not row.verdict.is_unstable]
    reach = [row.difference.detectable for row in stable or known if row.difference]
    correlation = compared.paired.correlation if compared.paired else 0.0
    return Judged(rows, correlation, statistics.median(reach) if reach else None)


def _difference(
    compared: Differences, row: int, known: Distribution, family: Family, p_value: float, p_outside: float, rate: float
) -> Difference:
    spread, pair = compared.spread, compared.pair(row)
    together, alone = known.interval(1 - family.level), known.interval()
    further, nearer = sorted((alone.low, alone.high), key=abs, reverse=True)
    ends = (known.center, further, nearer if nearer * further > 0 else 0.0)
    needed = [seeds_needed(spread, pair, known, end, family.level) if spread and pair else 0 for end in ends]
    return Difference(
        known.center,
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


def p_different(known: Distribution, margin: float) -> float:
    """The larger of two one-sided p-values, of the truth being above `margin` and below -`margin` (Schuirmann 1987)."""
    return max(known.below(-margin), 1 - known.below(margin))


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
    if difference.mean == difference.low == difference.high == 0:
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
