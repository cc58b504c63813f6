"""Rows against a baseline that was swept: against the best of its values, whichever that is.

The value that did best on some runs is the luckiest as well, and a row that is judged by the same runs against it is
called worse too often. So none is chosen: every value is a comparison of its own in the family of the page. A row is
better than the best value if it is better than each, and worse if it is worse than any; its difference to the best is
the smallest of its differences, and intervals that hold for all values together hold for the smallest of them. To split
the seeds, a value being chosen on some and judged on the others, errs as seldom and mostly finds less
(benchmarks/coverage).
A baseline of one value is the case of one comparison, in which nothing changes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rlzoo.statistics.intervals import LEVEL, Distribution, Estimate


@dataclass(frozen=True)
class AgainstValue:
    """A row against one value of the baseline."""

    baseline: int
    """The row of that value."""
    known: Distribution
    is_split: bool = False
    """Whether one of both shows two modes."""


@dataclass(frozen=True)
class AgainstBest:
    """A row against the best of all values of the baseline."""

    each: Sequence[AgainstValue]
    is_value: bool = False
    """Whether the row is one of them itself, and so never better than the best."""

    @property
    def nearest(self) -> AgainstValue:
        """Against the value that did best."""
        return min(self.each, key=lambda against: against.known.center)

    @property
    def mean(self) -> float:
        """The difference to the best value."""
        return self._bounded(self.nearest.known.center)

    @property
    def has_seeds(self) -> bool:
        """Whether the row and all values have several."""
        return all(against.known.seeds for against in self.each)

    @property
    def is_split(self) -> bool:
        """Whether two modes forbid a verdict: those of any value that the row is above, or of all that it is below."""
        split = [against.is_split for against in self.each]
        return any(split) if self._is_above else not any(map(_is_below, self.each))

    def interval(self, level: float) -> Estimate:
        """That holds if those of all values do; `level` is of each."""
        intervals = [against.known.interval(level) for against in self.each]
        ends = (min(interval.low for interval in intervals), min(interval.high for interval in intervals))
        return Estimate(self.mean, *map(self._bounded, ends))

    def alone(self) -> Estimate:
        """The 95 % interval of this row if it were the only one."""
        return self.interval(LEVEL ** (1 / len(self.each)))

    def p_value(self, p_values: Sequence[float]) -> float:
        """Two-sided, of no difference to the best value, from those of no difference to each, as they are corrected."""
        if self._is_above:
            return 1.0 if self.is_value else max(p_values)
        pairs = zip(self.each, p_values, strict=True)
        return min((p_value for against, p_value in pairs if _is_below(against)), default=min(p_values))

    def p_alone(self) -> float:
        """The same, corrected for the values alone."""
        p_value = self.p_value([against.known.p_value() for against in self.each])
        return p_value if self._is_above else self._for_any(p_value)

    def p_different(self, margin: float) -> float:
        """Of the truth lying beyond `margin` either way: the larger of both one-sided p-values (Schuirmann 1987)."""
        below = max(against.known.below(-margin) for against in self.each)
        above = min(1 - against.known.below(margin) for against in self.each)
        return below if self.is_value else max(below, self._for_any(above))

    @property
    def _is_above(self) -> bool:
        """Whether the row did better than every value."""
        return self.nearest.known.center > 0

    def _for_any(self, smallest: float) -> float:
        """The smallest p-value of all values, corrected for their number (Sidak 1967)."""
        count = len(self.each)
        return smallest if count == 1 else -math.expm1(count * math.log1p(-min(smallest, 1 - 1e-16)))

    def _bounded(self, difference: float) -> float:
        return min(0.0, difference) if self.is_value else difference


def _is_below(against: AgainstValue) -> bool:
    """Whether the value did better than the row, or as well, and neither shows two modes."""
    return against.known.center <= 0 and not against.is_split
