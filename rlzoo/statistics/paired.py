"""Two methods on the same seeds: their difference is the mean of what they differ by, seed by seed (Student's t).

Runs with the same seed have the same prompts and draws, and what they share is in no difference: the spread of
differences can be a tenth of that of runs.
"""

from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from rlzoo.statistics.intervals import LEVEL, Estimate
from rlzoo.statistics.planning import MOST_SEEDS, POWER, fewest

ROUNDING = 1e-12
"""Differences that vary by less, beside their size, are equal."""
SPREAD_LEVEL = 0.8
"""Of the interval of a standard deviation, at whose ends seeds are counted."""


@dataclass(frozen=True)
class PairedDifference(Estimate):
    """The mean of the first minus the second, with its 95 % interval."""

    deviation: float
    """Standard deviation of the difference on one seed."""
    pairs: int
    p_value: float
    """Two-sided, of the true mean being 0, not corrected."""

    @property
    def is_none(self) -> bool:
        """Whether the two are the same on every seed."""
        return self.mean == self.low == self.high == 0

    def is_within(self, margin: float, looks: int = 1) -> bool:
        """Whether the interval lies between -margin and margin; a wider one where this is one of several looks."""
        outside = (1 - LEVEL) / 2 / looks
        if self.mean and not self.deviation and 2.0 ** (1 - self.pairs) > 2 * outside:
            return False  # differences that are equal by chance have no spread
        reach = float(stats.t.isf(outside, self.pairs - 1)) * self.deviation / np.sqrt(self.pairs)
        return bool(abs(self.mean) + reach < margin)


def paired_by_seed(first: np.ndarray, second: np.ndarray) -> PairedDifference:
    """Of [seeds] scores each, two seeds or more."""
    differences = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    known, deviation = mean_by_seed(differences), float(_deviations(differences))
    p_value = float(paired_p_values(differences))
    return PairedDifference(known.mean, known.low, known.high, deviation, len(differences), p_value)


def mean_by_seed(scores: np.ndarray) -> Estimate:
    """Of [seeds] scores of one method, two seeds or more."""
    count, mean = len(scores), float(scores.mean())
    reach = float(stats.t.isf((1 - LEVEL) / 2, count - 1)) * float(_deviations(scores)) / np.sqrt(count)
    return Estimate(mean, mean - reach, mean + reach)


def paired_p_values(differences: np.ndarray) -> np.ndarray:
    """[...] two-sided p-values of [..., seeds] differences.

    Differences that are all the same have no spread to be measured by: how probable it is that all have one sign.
    """
    count, mean, deviation = differences.shape[-1], differences.mean(axis=-1), _deviations(differences)
    with np.errstate(divide="ignore", invalid="ignore"):
        by_t = 2 * special.stdtr(count - 1, -np.abs(mean) / (deviation / np.sqrt(count)))
    return np.where(deviation > 0, by_t, np.where(mean == 0, 1.0, 2.0 ** (1 - count)))


def _deviations(differences: np.ndarray) -> np.ndarray:
    deviation = differences.std(axis=-1, ddof=1)
    return np.where(deviation > ROUNDING * np.abs(differences).max(axis=-1), deviation, 0.0)


def groups_differ(groups: np.ndarray) -> float:
    """The p-value of [groups, seeds] scores, all of the same method, having one mean (analysis of variance)."""
    if np.ptp(groups) == 0:
        return 1.0
    return float(stats.f_oneway(*groups).pvalue)


def pairs_needed(difference: float, deviation: float, level: float) -> int:
    """How many seeds find a true difference with 80 % power at p-values below `level`; 0 if MOST_SEEDS do not."""

    def finds(seeds: int) -> bool:
        critical = -special.stdtrit(seeds - 1, level / 2)
        reach = min(abs(difference) * np.sqrt(seeds) / deviation, 30.0) if deviation else 30.0
        return bool(special.nctdtr(seeds - 1, reach, critical) <= 1 - POWER)

    return fewest(finds, MOST_SEEDS) if difference else 0


def pairs_needed_range(difference: float, known: PairedDifference, level: float) -> tuple[int, int]:
    """That number at both ends of the interval of the standard deviation (chi-square)."""
    free = known.pairs - 1
    ends = (stats.chi2.isf((1 + side * SPREAD_LEVEL) / 2, free) for side in (-1, 1))
    low, high = (pairs_needed(difference, known.deviation * float(np.sqrt(free / end)), level) for end in ends)
    return low, high
