"""All tests of a leaderboard as one family: every row against the baseline by every measure.

Intervals of a leaderboard hold together by Sidak's inequality, which holds for differences that share a baseline.
P-values are corrected in Holm's steps (1979, Scandinavian Journal of Statistics 6:65) with the same inequality: the
smallest among all, the next among the others, until one is too large. So they are for rows that are stable. That a row
may not be is a doubt of its own, one for all measures and decodings, and is corrected for the rows alone; of these two
corrections the larger counts, which finds a third more than one for all tests (benchmarks/coverage). (The joint
distribution of the differences would allow a level higher by a quarter. Simulated, that errs in 6 to 9 % of
leaderboards with one unstable row, as what the rows have in common is then not known well enough.)
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic

import numpy as np
from scipy import stats

from rlzoo.statistics.differences import (
    Differences,
    Name,
    RunScores,
    compare_rows,
    stable_rows,
    with_instability,
)
from rlzoo.statistics.intervals import LEVEL, Distribution


@dataclass(frozen=True)
class Family:
    """All tests of a page: every row, decoding and measure. At most 5 % of pages may err."""

    tests: int
    looks: int = 1
    """How often it is looked at while seeds are added; each look may err in an equal part of the 5 %."""
    rows: int = 0
    """How many may be unstable, the baseline among them: those of several seeds, on each set of problems. 0 where none
    is in doubt."""

    @classmethod
    def of(cls, measures: Sequence[Differences], looks: int = 1) -> "Family":
        """All differences of rows and baselines that have several seeds, on one set of problems."""
        tests = sum(measure.pair(row) is not None for measure in measures for row in measure.others)
        return cls(tests, looks, max(len(measure.places) for measure in measures))

    @property
    def level(self) -> float:
        """The p-value that a page without a difference falls short of in at most 5 % of cases (Sidak 1967)."""
        return min(self.test_level, self.row_level)

    @property
    def test_level(self) -> float:
        """That of a page all of whose rows are known to be stable."""
        return self._level(self.tests)

    @property
    def row_level(self) -> float:
        """That of the doubt whether a row is stable."""
        return self._level(self.rows)

    def _level(self, count: int) -> float:
        return 1 - (1 - (1 - LEVEL) / self.looks) ** (1 / max(1, count))

    def adjusted(self, p_values: Sequence[float], if_stable: Sequence[float] = ()) -> list[float]:
        """The p-values of all `tests` as they may be compared with 0.05, in Holm's steps.

        What comes after the first `tests` of them is corrected for all `tests`, and is no part of the family.
        `if_stable`, if given, are the p-values for rows known to be stable. Then these take the steps, and the others,
        which doubt it, are corrected for the `rows`: their doubt is one for all measures. The larger counts.
        """
        stable = np.asarray(if_stable if len(if_stable) else p_values)
        tested, others = stable[: self.tests], stable[self.tests :]
        order = np.argsort(tested)
        steps = np.empty(len(tested))
        steps[order] = np.maximum.accumulate(self._once(tested[order], self.tests - np.arange(len(tested))))
        corrected = np.concatenate([steps, self._once(others, max(1, self.tests))])
        if len(if_stable):
            corrected = np.maximum(corrected, self._once(np.asarray(p_values), self.rows))
        return np.minimum(1.0, self.looks * corrected).tolist()

    @staticmethod
    def _once(p_values: np.ndarray, tests: np.ndarray | int) -> np.ndarray:
        """An upper bound of the probability that `tests` true null hypotheses give a p-value this small anywhere."""
        return np.asarray(-np.expm1(tests * np.log1p(-np.minimum(p_values, 1 - 1e-16))))


def false_discovery_rates(p_values: Sequence[float], looks: int = 1) -> list[float]:
    """For each difference the rate of false ones among all with p-values up to its own (Benjamini and Hochberg 1995).

    Proved for independent tests; simulated for differences that share a baseline (benchmarks/coverage).
    """
    rates = stats.false_discovery_control(p_values) if len(p_values) else np.empty(0)
    return np.minimum(1.0, looks * rates).tolist()


# ---- the tests of a leaderboard --------------------------------------------------------------------------------------


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
    """What is measured, such as pass@k. Decodings of one measure share the probability that a row is stable."""
    problems: Hashable = ""
    """The set that is answered. A row may be stable on one and not on another."""
    is_average: bool = False
    """Whether it is the average of sets that are judged as well: a doubt of it is a doubt of one of them."""

    def distinct(self) -> list[Name]:
        """Rows without repetitions of the same runs."""
        return [
            name for name, other in self.same_as.items() if self.scores[name].seeds != self.scores[other].seeds
        ] + list(dict.fromkeys(self.same_as.values()))


@dataclass(frozen=True)
class ComparedRows(Generic[Name]):
    """All rows by one measure, compared with the baseline."""

    number: int
    places: Mapping[Name, int]
    """Where each of the distinct rows stands in `differences`."""
    tested: Sequence[int]
    """Those that are unlike the baseline."""
    differences: Differences

    def tests(self) -> "list[RowTest]":
        """Every row against the baseline."""
        known = ((row, self.differences.to_baseline[row]) for row in self.tested)
        return [RowTest(self, row, difference) for row, difference in known if difference]


@dataclass(frozen=True)
class RowTest:
    """A row against the baseline by one measure."""

    rows: ComparedRows[Any]
    row: int
    difference: Distribution

    @property
    def has_seeds(self) -> bool:
        """Whether the row and the baseline have several."""
        return bool(self.difference.seeds)


def p_different(difference: Distribution, margin: float) -> float:
    """The p-value of the truth lying beyond `margin`: the larger of both one-sided ones (Schuirmann 1987)."""
    return max(difference.below(-margin), 1 - difference.below(margin))


@dataclass(frozen=True)
class FamilyTests(Generic[Name]):
    """The tests of a leaderboard with their p-values, corrected for all."""

    measured: Sequence[ComparedRows[Name]]
    """By each measure."""
    tests: Sequence[RowTest]
    family: Family
    p_values: Sequence[float]


def all_tests(measures: Sequence[Measure[Name]], baseline: Name, looks: int = 1) -> FamilyTests[Name]:
    """The tests of a leaderboard, as `judge` makes them, with their p-values alone."""
    measured = _compared(measures, baseline)
    tests = [test for rows in measured for test in rows.tests()]
    tests.sort(key=lambda test: not test.has_seeds)  # those of a single seed stay outside the family
    several = {
        problems: max(len({*measured[number].differences.places.values()}) for number in numbers)
        for problems, numbers in _by_problems(measures).items()
        if not all(measures[number].is_average for number in numbers)
    }
    with_seeds = sum(test.has_seeds for test in tests)
    family = Family(with_seeds or len(tests), looks, sum(several.values()))
    if_stable = [test.difference.if_stable().p_value() for test in tests]
    return FamilyTests(
        measured, tests, family, family.adjusted([test.difference.p_value() for test in tests], if_stable)
    )


def _compared(measures: Sequence[Measure[Name]], baseline: Name) -> list[ComparedRows[Name]]:
    """With one probability that a row is stable on each set of problems."""
    measured = [_measured(number, measure, baseline) for number, measure in enumerate(measures)]
    for numbers in _by_problems(measures).values():
        names = [list(measured[number].places) for number in numbers]
        by = [measures[number].by for number in numbers]
        stable = stable_rows([measured[number].differences for number in numbers], names, by)
        for number, of_rows in zip(numbers, names, strict=True):
            shared = with_instability(measured[number].differences, stable, of_rows)
            measured[number] = replace(measured[number], differences=shared)
    return measured


def _measured(number: int, measure: Measure[Name], baseline: Name) -> ComparedRows[Name]:
    places = {name: place for place, name in enumerate(measure.distinct())}
    tested = [places[name] for name in places if measure.same_as[name] != baseline]
    copies = {*places.values()} - {*tested, places[baseline]}
    differences = compare_rows([measure.scores[name] for name in places], places[baseline], measure.step, copies)
    return ComparedRows(number, places, tested, differences)


def _by_problems(measures: Sequence[Measure[Name]]) -> dict[Hashable, list[int]]:
    """Which measures are of each set."""
    numbers: dict[Hashable, list[int]] = {}
    for number, measure in enumerate(measures):
        numbers.setdefault(measure.problems, []).append(number)
    return numbers
