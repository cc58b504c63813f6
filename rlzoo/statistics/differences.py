"""Differences of several methods to a baseline.

A difference has the seed errors of both rows, each moderated over the leaderboard (`spread.py`) and, where it shows
that runs of a seed have something in common, free of that; and the problems, which are the same for all.
"""

import itertools
from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from scipy import stats

from rlzoo.statistics.intervals import (
    NODES,
    Distribution,
    SeedError,
    nodes_of,
    resampled_deviations,
    shrinkage,
)
from rlzoo.statistics.spread import PairedSpread, Spread, has_two_modes, learn_paired_spread, learn_spread

Name = TypeVar("Name", bound=Hashable)
"""What a row is known by."""


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
    two_modes: Sequence[bool]
    """Whether the runs of each row have two modes."""

    @property
    def others(self) -> list[int]:
        """All rows but the baseline."""
        return [row for row in range(len(self.means)) if row != self.baseline]

    def is_unstable(self, row: int) -> bool:
        """Whether its runs lie further apart than those of the other rows."""
        return bool(self.spread and row in self.places and self.spread.is_unstable(self.places[row]))

    def has_two_modes(self, row: int) -> bool:
        """Whether the runs of a row, or of the baseline, have two modes."""
        return self.two_modes[row] or self.two_modes[self.baseline]

    def pair(self, row: int) -> tuple[int, int] | None:
        """Where a row and the baseline stand in `spread`; None if either has one seed."""
        both = row in self.places and self.baseline in self.places
        return (self.places[row], self.places[self.baseline]) if both else None


def compare_rows(rows: Sequence[RunScores], baseline: int, step: float, copies: Collection[int] = ()) -> Differences:
    """Compares every row with the baseline; rows have the same problems.

    Values of a problem are multiples of `step`, so that unequal runs can look equal. The rows `copies` are runs of the
    baseline once more: they have its spread, and say nothing of that of others.
    """
    known, every = _KnownRows.of(rows, baseline, step, copies), range(len(rows))
    return Differences(
        [known.mean(row) for row in every],
        [known.difference(row, baseline) for row in every],
        baseline,
        known.spread,
        known.paired,
        known.places,
        [known.has_two_modes(row) for row in every],
    )


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
    def of(cls, rows: Sequence[RunScores], baseline: int, step: float, copies: Collection[int]) -> "_KnownRows":
        several = [row for row in range(len(rows)) if len(rows[row].seeds) > 1]
        repeated = [row for row in several if row not in copies]
        alone, paired = _spreads([rows[row] for row in repeated], step) if repeated else (None, None)
        by_problem = np.stack([scores.values.mean(axis=0) for scores in rows], axis=1)
        places = {row: repeated.index(baseline if row in copies else row) for row in several}
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

    def has_two_modes(self, row: int) -> bool:
        spread = self.spread
        if spread is None or row not in self.places:
            return False
        runs = self.paired.residuals[self.places[row]] if self.paired else self.rows[row].values.mean(axis=1)
        return has_two_modes(runs, float(np.sqrt(spread.prior_variance)), spread.pooled_degrees)


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


# ---- instability -----------------------------------------------------------------------------------------------------

# The doubt whether a row is stable is one for all measures and decodings of a set, as they score the same runs. Each of
# them has its own probability that a row is stable (`spread.py`). Three runs that lie close together by chance do so by
# one measure and not by the next, so that the most trusting of six would decide: of simulated leaderboards of three
# measures and two decodings with a row or the baseline five times as wide 9 to 10 % err so. Decodings differ by samples
# alone, and their mean counts; of the measures it is the one that doubts most. Then 3 to 4 % err, and leaderboards of
# one measure find as much as before. (The decoding that doubts most would cost a sixth of that; the mean over measures
# lets 5 to 7 % err.)


def stable_rows(
    compared: Sequence[Differences], names: Sequence[Sequence[Name]], measures: Sequence[str]
) -> dict[Name, float]:
    """The probability that each row with several seeds is stable; all differences are of one set of problems.

    `names` are of the rows of each, `measures` of what each is by: those of one name differ by their decoding.
    """
    known: dict[Name, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for differences, of_rows, measure in zip(compared, names, measures, strict=True):
        for row, place in differences.places.items():
            if differences.spread:
                known[of_rows[row]][measure].append(float(differences.spread.weights[place, 0]))
    return {name: min(float(np.mean(values)) for values in of.values()) for name, of in known.items()}


def with_instability(
    differences: Differences, stable_by_name: Mapping[Name, float], names: Sequence[Name]
) -> Differences:
    """With these probabilities that rows are stable."""
    stable = [stable_by_name.get(name, 1.0) for name in names]
    to_baseline = list(differences.to_baseline)
    for row, known in enumerate(to_baseline):
        if known and known.seeds:
            pair = [(stable[place], 1 - stable[place]) for place in (row, differences.baseline)]
            weights = [row_is * baseline_is for row_is, baseline_is in itertools.product(*pair)]
            seeds = [replace(case, weight=weight) for case, weight in zip(known.seeds, weights, strict=True)]
            to_baseline[row] = replace(known, seeds=seeds)
    return replace(differences, to_baseline=to_baseline)
