"""Runs of a method in two modes, as where some of them collapse: what few seeds show of it, and what they cannot.

The runs of a row are taken to have two modes if, when they are sorted, a gap is between two of them that two stable
runs of the page would have between them with a probability of RARE: five standard deviations, and more where few rows
say how large one is (Student's t). No statistic knows of a mode that no run is in: a method of which every third run
collapses shows none in three seeds with a probability of 30 %. From SHOWN_FROM seeds on 1 to 5 % of simulated pages err
that have a row with a third of its runs or more in either mode; of a row that collapses in a fifth of its runs ten show
none with a probability of 11 % (benchmarks/coverage). Below that the page says what it may have missed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

RARE = 2e-4
SHOWN_FROM = 10
"""Seeds from which pages with such rows err about as often as others."""
SURE = 0.95


@dataclass(frozen=True)
class Collapse:
    """How many runs of a row are in the lower of two modes."""

    runs: int
    seeds: int

    @property
    def rate(self) -> float:
        """The share of such runs."""
        return self.runs / self.seeds

    @property
    def interval(self) -> tuple[float, float]:
        """Clopper and Pearson's limits of the probability of such a run; each holds in 95 % of cases."""
        low = stats.beta.ppf(1 - SURE, self.runs, self.seeds - self.runs + 1) if self.runs else 0.0
        high = stats.beta.ppf(SURE, self.runs + 1, self.seeds - self.runs) if self.runs < self.seeds else 1.0
        return float(low), float(high)


def collapse_of(runs: Sequence[float] | np.ndarray, deviation: float, degrees: float) -> Collapse:
    """The runs below the widest gap, if that is one between modes.

    `deviation` is the standard deviation of stable runs, known with so many degrees of freedom.
    """
    ordered = np.sort(np.asarray(runs, dtype=np.float64))
    gaps = np.diff(ordered)
    reach = np.sqrt(2) * stats.t.isf(RARE, degrees) * deviation
    widest = int(np.argmax(gaps)) if len(gaps) else 0
    return Collapse(widest + 1 if len(gaps) and gaps[widest] > reach else 0, len(ordered))


def could_miss(seeds: int) -> float:
    """The largest rate of collapse that shows in none of so many seeds with a probability of 5 %."""
    return float(1 - (1 - SURE) ** (1 / seeds))
