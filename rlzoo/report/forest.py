"""The forest plot: differences to the baseline on one scale, their intervals, and a dot for each seed."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.ticker import MaxNLocator

from rlzoo.comparing.grid import Identity
from rlzoo.comparing.leaderboard import Leaderboard
from rlzoo.comparing.problem_sets import Place
from rlzoo.statistics.intervals import Estimate
from rlzoo.statistics.verdicts import Measured

MARGIN = 0.04
SPACE = 0.75
"""How much further than the seeds the scale may reach, in their width; intervals that reach further end in an arrow."""
TEXT_WIDTH = 31


@dataclass(frozen=True)
class Scale:
    """Where differences from `low` to `high` lie between 0 and 100."""

    low: float
    high: float

    @classmethod
    def over(cls, rows: Sequence[Measured]) -> "Scale":
        """Wide enough for 0, every seed, and intervals that are not many times as wide as these."""
        dots = [0.0, *(dot for row in rows for dot in against(row))]
        differences = [row.difference for row in rows if row.difference]
        ends = [end for difference in differences for end in (difference.low, difference.high)]
        inner = [end for difference in differences for end in (difference.alone.low, difference.alone.high)]
        span = max(max(dots) - min(dots), 0.5 * (max(inner, default=0.0) - min(inner, default=0.0)), 0.002)
        low = max(min([*dots, *ends]), min(dots) - SPACE * span)
        high = min(max([*dots, *ends]), max(dots) + SPACE * span)
        margin = max(MARGIN * (high - low), 0.001)
        return cls(low - margin, high + margin)

    def at(self, value: float) -> float:
        """0 to 100; what lies outside is at the end."""
        return round(min(100.0, max(0.0, 100 * (value - self.low) / (self.high - self.low))), 2)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Round values, in points, with their places."""
        values = MaxNLocator(nbins=5, steps=[1, 2, 5, 10]).tick_values(100 * self.low, 100 * self.high)
        return [(self.at(tick / 100), f"{tick:g}") for tick in values if self.low < tick / 100 < self.high]


@dataclass(frozen=True)
class ForestMark:
    """Where a row is drawn, each from 0 to 100."""

    together: Estimate
    """The difference, with the interval that holds for the page."""
    alone: Estimate
    """With that of the row alone."""
    is_cut_below: bool
    """The interval goes on beyond the scale."""
    is_cut_above: bool
    dots: Sequence[tuple[float, str]]
    """Of each seed, with what it is."""


@dataclass(frozen=True)
class Forest:
    """All rows with one decoding."""

    scale: Scale
    marks: dict[Identity, ForestMark]
    """By row."""

    @property
    def zero(self) -> float:
        """Where the baseline lies."""
        return self.scale.at(0.0)


def forest(board: Leaderboard, decoding: Place) -> Forest:
    """The differences of avg@k."""
    scale = Scale.over([row.results[decoding].average for row in board.rows])
    marks = {row.identity: _mark(row.results[decoding].average, row.seeds, scale) for row in board.rows}
    return Forest(scale, marks)


def against(measured: Measured) -> list[float]:
    """Each seed's mean minus that of the baseline."""
    baseline = measured.estimate.mean - (measured.difference.mean if measured.difference else 0.0)
    return [mean - baseline for mean in measured.by_seed]


def _mark(measured: Measured, seeds: Sequence[int], scale: Scale) -> ForestMark:
    together = measured.difference or Estimate(0.0, 0.0, 0.0)
    alone = measured.difference.alone if measured.difference else together
    page, row = (
        Estimate(*map(scale.at, (interval.mean, interval.low, interval.high))) for interval in (together, alone)
    )
    dots = [
        (scale.at(place), f"seed {seed}: {100 * value:.1f} ({100 * place:+.1f})")
        for seed, value, place in zip(seeds, measured.by_seed, against(measured), strict=True)
    ]
    return ForestMark(page, row, together.low < scale.low, together.high > scale.high, dots)


def as_text(mark: ForestMark, zero: float, is_baseline: bool) -> str:
    """TEXT_WIDTH characters: the baseline's line, the interval of the page, thick where that of the row alone lies."""

    def place(value: float) -> int:
        return round(value / 100 * (TEXT_WIDTH - 1))

    line = [" "] * TEXT_WIDTH
    if not is_baseline:
        for interval, stroke in ((mark.together, "─"), (mark.alone, "━")):
            reach = slice(place(interval.low), place(interval.high) + 1)
            line[reach] = stroke * (reach.stop - reach.start)
        ends = ((mark.together.low, mark.is_cut_below, "◂"), (mark.together.high, mark.is_cut_above, "▸"))
        for end, _, arrow in (limit for limit in ends if limit[1]):
            line[place(end)] = arrow
    line[place(zero)] = "┃" if is_baseline else "┼" if line[place(zero)] != " " else "│"
    line[place(mark.together.mean)] = "┃" if is_baseline else "●"
    return "".join(line)
