"""Differences of several methods to a baseline, and how small a p-value of chance may be among so many.

A difference has the seed errors of both rows, each moderated over the page (`spread.py`) and, where it shows that
runs of a seed have something in common, free of that; and the problems, which are the same for all. Intervals of a
page hold together by Sidak's inequality, which holds for differences that share a baseline. P-values are corrected in
Holm's steps (1979, Scandinavian Journal of Statistics 6:65) with the same inequality: the smallest among all, the
next among the others, until one is too large. So they are for rows that are stable. That a row may not be is a doubt of
its own, one for all measures and decodings (`doubt.py`), and is corrected for the rows alone; of these two corrections
the larger counts, which finds a third more than one for all tests (benchmarks/coverage). (The joint distribution of the
differences would allow a level higher by a quarter. Simulated, that errs in 6 to 9 % of pages with one unstable row, as
what the rows have in common is then not known well enough.)
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from rlzoo.statistics.intervals import (
    LEVEL,
    NODES,
    Distribution,
    SeedError,
    nodes_of,
    resampled_deviations,
    shrinkage,
)
from rlzoo.statistics.modes import Collapse, collapse_of
from rlzoo.statistics.spread import PairedSpread, Spread, learn_paired_spread, learn_spread


@dataclass(frozen=True)
class RunScores:
    """What the trained models of one row scored, from 0 to 1; of each problem the mean over its samples."""

    seeds: tuple[int, ...]
    values: np.ndarray
    """[seeds, problems]."""
    equal_problems: float | None = None
    """How many problems say as much as these do together, where they do not count the same."""

    @property
    def problems(self) -> float:
        """How many there are, or how many of equal weight say as much."""
        return self.values.shape[1] if self.equal_problems is None else self.equal_problems


@dataclass(frozen=True)
class Differences:
    """All rows by one measure, with their differences to one of them, the baseline."""

    means: Sequence[Distribution]
    """Of each row."""
    to_baseline: Sequence[Distribution | None]
    """Of each row; None for the baseline."""
    baseline: int
    spread: Spread | None
    """What differences have: without the seeds' own part, where rows share them. None where no row has two seeds."""
    paired: PairedSpread | None
    """None where rows do not share seeds, or where seeds make no difference that shows."""
    places: Mapping[int, int]
    """Where the rows that have several seeds stand in `spread`."""
    collapses: Sequence[Collapse]
    """Of each row."""

    @property
    def others(self) -> list[int]:
        """All rows but the baseline."""
        return [row for row in range(len(self.means)) if row != self.baseline]

    def is_unstable(self, row: int) -> bool:
        """Whether its runs lie further apart than those of the other rows."""
        return bool(self.spread and row in self.places and self.spread.is_unstable(self.places[row]))

    def pair(self, row: int) -> tuple[int, int] | None:
        """Where a row and the baseline stand in `spread`; None if either has one seed."""
        both = row in self.places and self.baseline in self.places
        return (self.places[row], self.places[self.baseline]) if both else None


def compare_rows(rows: Sequence[RunScores], baseline: int, step: float) -> Differences:
    """Compares every row with the baseline; rows have the same problems.

    Values of a problem are multiples of `step`, so that unequal runs can look equal.
    """
    return compare_with_each(rows, [baseline], step)[0]


def compare_with_each(rows: Sequence[RunScores], baselines: Sequence[int], step: float) -> list[Differences]:
    """Compares every row with each of several baselines."""
    known, every = _KnownRows.of(rows, step), range(len(rows))
    means, collapses = [known.mean(row) for row in every], [known.collapse(row) for row in every]
    return [
        Differences(
            means,
            [known.difference(row, baseline) for row in every],
            baseline,
            known.spread,
            known.paired,
            known.places,
            collapses,
        )
        for baseline in baselines
    ]


@dataclass(frozen=True)
class _KnownRows:
    """What all rows say together, before any is compared."""

    rows: Sequence[RunScores]
    places: Mapping[int, int]
    """Of the rows that have several seeds in the spreads."""
    alone: Spread | None
    """Of each row by itself."""
    paired: PairedSpread | None
    """Of its runs against those of the same seed."""
    by_problem: np.ndarray
    """[problems, rows]."""
    resampled: np.ndarray
    """[resamples, rows] deviations."""

    @classmethod
    def of(cls, rows: Sequence[RunScores], step: float) -> "_KnownRows":
        repeated = [row for row in range(len(rows)) if len(rows[row].seeds) > 1]
        alone, paired = _spreads([rows[row] for row in repeated], step) if repeated else (None, None)
        by_problem = np.stack([scores.values.mean(axis=0) for scores in rows], axis=1)
        places = {row: place for place, row in enumerate(repeated)}
        return cls(rows, places, alone, paired, by_problem, resampled_deviations(by_problem))

    @property
    def spread(self) -> Spread | None:
        return self.paired.spread if self.paired else self.alone

    def center(self, row: int) -> float:
        return float(self.by_problem[:, row].mean())

    def mean(self, row: int) -> Distribution:
        scores = self.rows[row]
        seeds = _errors(self.alone, self.places[row], len(scores.seeds)) if self.alone and row in self.places else []
        deviations = nodes_of(self.resampled[:, row], self.rows[0].problems, shrinkage(scores.values))
        return Distribution(self.center(row), seeds, deviations)

    def difference(self, row: int, baseline: int) -> Distribution | None:
        if row == baseline:
            return None
        scores, others, seeds = self.rows[row], self.rows[baseline], list[SeedError]()
        if self.spread and {row, baseline} <= set(self.places):
            unshared = _unshared(scores.seeds, others.seeds, self.paired)
            pair, counts = (self.places[row], self.places[baseline]), (len(scores.seeds), len(others.seeds))
            seeds = _pair_errors(self.spread, pair, counts, unshared)
        deviations = _problems(scores, others, self.resampled[:, row] - self.resampled[:, baseline])
        return Distribution(self.center(row) - self.center(baseline), seeds, deviations)

    def collapse(self, row: int) -> Collapse:
        spread, scores = self.spread, self.rows[row]
        if spread is None or row not in self.places:
            return Collapse(0, len(scores.seeds))
        runs = self.paired.residuals[self.places[row]] if self.paired else scores.values.mean(axis=1)
        return collapse_of(runs, float(np.sqrt(spread.prior_variance)), spread.pooled_degrees)


def _spreads(rows: Sequence[RunScores], step: float) -> tuple[Spread, PairedSpread | None]:
    """Of each row by itself, and of its runs against those of the same seed."""
    floor = (step / rows[0].values.shape[1]) ** 2 / 12
    means, seeds = [scores.values.mean(axis=1) for scores in rows], [scores.seeds for scores in rows]
    paired = learn_paired_spread(means, seeds, floor) if len(rows) > 1 else None
    return learn_spread(means, floor), paired if paired and paired.is_evident else None


def _errors(spread: Spread, row: int, count: int) -> list[SeedError]:
    known = zip(spread.weights[row], spread.variances[row], spread.degrees[row], strict=True)
    return [SeedError(weight, float(np.sqrt(variance / count)), degrees) for weight, variance, degrees in known]


def _unshared(seeds: Sequence[int], of_baseline: Sequence[int], paired: PairedSpread | None) -> tuple[float, float]:
    """The variance of a difference that comes of seeds which only one of both has, with its degrees of freedom."""
    if paired is None:
        return 0.0, 1.0
    share = len(set(seeds) & set(of_baseline)) / (len(seeds) * len(of_baseline))
    return paired.common_variance * (1 / len(seeds) + 1 / len(of_baseline) - 2 * share), paired.common_degrees


def _pair_errors(
    spread: Spread, pair: tuple[int, int], counts: tuple[int, int], unshared: tuple[float, float]
) -> list[SeedError]:
    """Welch's and Satterthwaite's, for the four cases of either being stable or not."""
    errors = []
    for kinds in itertools.product((0, 1), repeat=2):
        places = list(zip(pair, kinds, strict=True))
        weight = float(np.prod([spread.weights[place] for place in places]))
        parts = [spread.variances[place] / count for place, count in zip(places, counts, strict=True)]
        degrees = [spread.degrees[place] for place in places]
        variance = sum(parts) + unshared[0]
        squares = sum(part**2 / free for part, free in zip([*parts, unshared[0]], [*degrees, unshared[1]], strict=True))
        free = variance**2 / squares
        if kinds == (0, 0):
            free = min(free, spread.pooled_degrees)
        errors.append(SeedError(weight, float(np.sqrt(variance)), float(free)))
    return errors


def _problems(scores: RunScores, baseline: RunScores, deviations: np.ndarray) -> np.ndarray:
    """[nodes] the problems' deviations of a difference, less what is in the spread over seeds.

    If no problem tells the two apart, the share of problems that would have is a beta variable, either way.
    """
    problems = scores.problems
    if not deviations.any():
        either = stats.beta.ppf((np.arange(NODES // 2) + 0.5) / (NODES // 2), 1, problems)
        return np.concatenate([-either, either])
    shared = sorted(set(scores.seeds) & set(baseline.seeds))
    if len(shared) < 2:
        return nodes_of(deviations, problems)
    paired = [runs.values[[runs.seeds.index(seed) for seed in shared]] for runs in (scores, baseline)]
    return nodes_of(deviations, problems, shrinkage(paired[0] - paired[1]))


@dataclass(frozen=True)
class Family:
    """Everything that a page tests: all rows with all decodings by all measures, of which 5 % of pages may err."""

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
        """How often so many tests of nothing show so small a p-value anywhere, at most."""
        return np.asarray(-np.expm1(tests * np.log1p(-np.minimum(p_values, 1 - 1e-16))))


def false_discovery_rates(p_values: Sequence[float], looks: int = 1) -> list[float]:
    """For each difference the rate of false ones among all with p-values up to its own (Benjamini and Hochberg 1995).

    Proved for independent tests; simulated for differences that share a baseline (benchmarks/coverage).
    """
    rates = stats.false_discovery_control(p_values) if len(p_values) else np.empty(0)
    return np.minimum(1.0, looks * rates).tolist()
