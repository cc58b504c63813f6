"""The tests of a page: every row against the baseline by every measure, in one family."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from rlzoo.statistics.differences import Differences, Family, RunScores, compare_with_each
from rlzoo.statistics.doubt import doubted, stable_rows
from rlzoo.statistics.swept_baseline import AgainstBest, AgainstValue

Name = TypeVar("Name", bound=Hashable)
"""What a row is known by."""


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
class MeasuredPage(Generic[Name]):
    """All rows by one measure, compared with each value of the baseline."""

    number: int
    places: Mapping[Name, int]
    """Of the distinct rows."""
    tested: Sequence[int]
    """Those that are unlike the baseline."""
    compared: Mapping[int, Differences]
    """By the row of each value; the baseline first."""

    @property
    def first(self) -> Differences:
        """To the baseline."""
        return next(iter(self.compared.values()))

    def tests(self) -> "list[RowTest]":
        """Every row against the best value."""
        return [RowTest(self, row, AgainstBest(self._against(row), row in self.compared)) for row in self.tested]

    def _against(self, row: int) -> list[AgainstValue]:
        return [
            AgainstValue(value, known, any(differences.collapses[place].runs for place in (row, value)))
            for value, differences in self.compared.items()
            if (known := differences.to_baseline[row])
        ]


@dataclass(frozen=True)
class RowTest:
    """A row against the baseline by one measure."""

    page: MeasuredPage[Any]
    row: int
    against: AgainstBest


@dataclass(frozen=True)
class PageTests(Generic[Name]):
    """A page of tests."""

    pages: Sequence[MeasuredPage[Name]]
    """By each measure."""
    tests: Sequence[RowTest]
    family: Family
    p_values: Sequence[float]
    """Of each test, corrected for the page."""


def all_tests(
    measures: Sequence[Measure[Name]], baseline: Name, looks: int = 1, swept: Sequence[Name] = ()
) -> PageTests[Name]:
    """The tests of a page, as `judge` makes them, with their p-values alone."""
    pages = _compared(measures, baseline, swept)
    tests = [test for page in pages for test in page.tests()]
    tests.sort(key=lambda test: not test.against.has_seeds)  # those of a single seed stay outside the family
    several = {
        problems: max(len(pages[number].first.places) for number in numbers)
        for problems, numbers in _by_problems(measures).items()
        if not all(measures[number].is_average for number in numbers)
    }
    return PageTests(pages, tests, *_p_values(tests, looks, sum(several.values())))


def _p_values(tests: Sequence[RowTest], looks: int, rows: int) -> tuple[Family, list[float]]:
    """The family of all comparisons of two rows, and the corrected p-value of each test."""
    known = {
        (test.page.number, frozenset((test.row, value.baseline))): value.known
        for test in tests
        for value in test.against.each
    }
    pairs = sorted(known, key=lambda pair: not known[pair].seeds)
    family = Family(sum(bool(known[pair].seeds) for pair in pairs), looks, rows)
    if_stable = [known[pair].if_stable().p_value() for pair in pairs]
    corrected = dict(zip(pairs, family.adjusted([known[pair].p_value() for pair in pairs], if_stable), strict=True))
    return family, [
        test.against.p_value(
            [corrected[test.page.number, frozenset((test.row, value.baseline))] for value in test.against.each]
        )
        for test in tests
    ]


def _compared(measures: Sequence[Measure[Name]], baseline: Name, swept: Sequence[Name]) -> list[MeasuredPage[Name]]:
    """With one doubt of each row on each set of problems."""
    pages = [_page(number, measure, baseline, swept) for number, measure in enumerate(measures)]
    for numbers in _by_problems(measures).values():
        names = {number: list(pages[number].places) for number in numbers}
        by = [measures[number].by for number in numbers]
        stable = stable_rows([pages[number].first for number in numbers], list(names.values()), by)
        for number in numbers:
            compared = pages[number].compared
            shared = {value: doubted(differences, stable, names[number]) for value, differences in compared.items()}
            pages[number] = replace(pages[number], compared=shared)
    return pages


def _page(number: int, measure: Measure[Name], baseline: Name, swept: Sequence[Name]) -> MeasuredPage[Name]:
    places = {name: place for place, name in enumerate(measure.distinct())}
    of_values = [name if name in places else measure.same_as[name] for name in (baseline, *swept)]
    values = list(dict.fromkeys(places[name] for name in of_values))
    compared = compare_with_each([measure.scores[name] for name in places], values, measure.step)
    tested = [places[name] for name in places if measure.same_as[name] != baseline]
    return MeasuredPage(number, places, tested, dict(zip(values, compared, strict=True)))


def _by_problems(measures: Sequence[Measure[Name]]) -> dict[Hashable, list[int]]:
    """Which measures are of each set."""
    numbers: dict[Hashable, list[int]] = {}
    for number, measure in enumerate(measures):
        numbers.setdefault(measure.problems, []).append(number)
    return numbers
