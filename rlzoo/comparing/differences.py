"""Differences of all rows of a page to its baseline, and how small a p-value of chance may be among so many.

A difference has the seed errors of both rows, each moderated over the page (`spread.py`), less what the runs with the
same seed share; and the problems, which are the same for all. P-values are corrected by Sidak's inequality, which holds
for differences that share a baseline: an interval of 1 - `Page.level` leaves 0 out just where the corrected p-value is
below 0.05. (The joint distribution of the differences would allow a level higher by a quarter. Simulated, that errs in
6 to 9 % of pages with one unstable row, as what the rows have in common is then not known well enough.)
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from rlzoo.comparing.spread import Spread, learn_spread
from rlzoo.evaluation.intervals import (
    LEVEL,
    NODES,
    Distribution,
    SeedError,
    nodes_of,
    resampled_deviations,
    shrinkage,
)


@dataclass(frozen=True)
class Runs:
    """A row's trained models: values from 0 to 1, the mean of each problem."""

    seeds: tuple[int, ...]
    values: np.ndarray
    """[seeds, problems]."""
    like: float | None = None
    """How many problems say as much as these do together, where they do not count the same."""

    @property
    def problems(self) -> float:
        """How many there are, or are as good as there."""
        return self.values.shape[1] if self.like is None else self.like


@dataclass(frozen=True)
class Comparison:
    """All rows with one decoding."""

    means: Sequence[Distribution]
    """Of each row."""
    differences: Sequence[Distribution | None]
    """To the baseline; None for itself."""
    baseline: int
    spread: Spread | None
    """None where no row has two seeds."""
    places: Mapping[int, int]
    """Where the rows that have several seeds stand in `spread`."""

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


def compare_rows(rows: Sequence[Runs], baseline: int, step: float) -> Comparison:
    """Compares every row with the baseline; rows have the same problems.

    Values of a problem are multiples of `step`, so that unequal runs can look equal.
    """
    repeated = [row for row in range(len(rows)) if len(rows[row].seeds) > 1]
    places = {row: place for place, row in enumerate(repeated)}
    spread = _spread([rows[row] for row in repeated], step) if repeated else None
    problems = rows[0].problems
    by_problem = np.stack([own.values.mean(axis=0) for own in rows], axis=1)
    alone = resampled_deviations(by_problem)
    against = alone - alone[:, [baseline]]
    means, differences = list[Distribution](), list[Distribution | None]()
    for row, own in enumerate(rows):
        center = float(by_problem[:, row].mean())
        seeds = _errors(spread, places[row], len(own.seeds)) if spread and row in places else []
        means.append(Distribution(center, seeds, nodes_of(alone[:, row], problems, shrinkage(own.values))))
        if row == baseline:
            differences.append(None)
            continue
        both = spread and {row, baseline} <= set(places)
        seeds = _pair_errors(spread, (places[row], places[baseline]), own, rows[baseline]) if spread and both else []
        center -= float(by_problem[:, baseline].mean())
        differences.append(Distribution(center, seeds, _problems(own, rows[baseline], against[:, row])))
    return Comparison(means, differences, baseline, spread, places)


def _spread(rows: Sequence[Runs], step: float) -> Spread:
    floor = (step / rows[0].values.shape[1]) ** 2 / 12
    return learn_spread([own.values.mean(axis=1) for own in rows], [own.seeds for own in rows], floor)


def _errors(spread: Spread, row: int, count: int) -> list[SeedError]:
    known = zip(spread.weights[row], spread.variances[row], spread.degrees[row], strict=True)
    return [SeedError(weight, float(np.sqrt(variance / count)), degrees) for weight, variance, degrees in known]


def _pair_errors(spread: Spread, pair: tuple[int, int], own: Runs, baseline: Runs) -> list[SeedError]:
    """Welch's and Satterthwaite's, for the four cases of either being stable or not."""
    shared = len(set(own.seeds) & set(baseline.seeds)) / (len(own.seeds) * len(baseline.seeds))
    counts = (len(own.seeds), len(baseline.seeds))
    errors = []
    for kinds in itertools.product((0, 1), repeat=2):
        places = list(zip(pair, kinds, strict=True))
        weight = float(np.prod([spread.weights[place] for place in places]))
        variances = np.array([spread.variances[place] for place in places])
        parts = variances / counts
        degrees = parts.sum() ** 2 / sum(
            part**2 / spread.degrees[place] for part, place in zip(parts, places, strict=True)
        )
        if kinds == (0, 0):
            degrees = min(degrees, spread.pooled_degrees)
        common = 2 * spread.correlation * variances.min() * shared
        errors.append(SeedError(weight, float(np.sqrt(parts.sum() - common)), float(degrees)))
    return errors


def _problems(own: Runs, baseline: Runs, deviations: np.ndarray) -> np.ndarray:
    """[nodes] the problems' deviations of a difference, less what is in the spread over seeds.

    If no problem tells the two apart, the share of problems that would have is a beta variable, either way.
    """
    problems = own.problems
    if not deviations.any():
        either = stats.beta.ppf((np.arange(NODES // 2) + 0.5) / (NODES // 2), 1, problems)
        return np.concatenate([-either, either])
    shared = sorted(set(own.seeds) & set(baseline.seeds))
    if len(shared) < 2:
        return nodes_of(deviations, problems)
    paired = [runs.values[[runs.seeds.index(seed) for seed in shared]] for runs in (own, baseline)]
    return nodes_of(deviations, problems, shrinkage(paired[0] - paired[1]))


@dataclass(frozen=True)
class Page:
    """Everything that a page compares, all rows with all decodings, and what chance may do anywhere on it."""

    tests: int
    looks: int = 1
    """How often it is looked at while seeds are added; each look may err in an equal part of the 5 %."""

    @classmethod
    def of(cls, comparisons: Sequence[Comparison], looks: int = 1) -> "Page":
        """All decodings together."""
        return cls(sum(own.pair(row) is not None for own in comparisons for row in own.others), looks)

    @property
    def level(self) -> float:
        """The p-value that a page without a difference falls short of in at most 5 % of cases (Sidak 1967)."""
        return 1 - (1 - (1 - LEVEL) / self.looks) ** (1 / max(1, self.tests))

    def adjusted(self, p_value: float) -> float:
        """How often a page without a difference shows so small a p-value anywhere, at most."""
        once = -np.expm1(max(1, self.tests) * np.log1p(-min(p_value, 1 - 1e-16)))
        return min(1.0, self.looks * float(once))
