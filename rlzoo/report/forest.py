"""The forest plot: differences to the baseline on one scale, their intervals, and a dot for each seed."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.ticker import MaxNLocator

from rlzoo.comparing.leaderboard import Leaderboard
from rlzoo.comparing.verdicts import Measured
from rlzoo.config.decoding import Decoding

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
        dots = [0.0, *(dot for it in rows for dot in against(it))]
        ends = [end for it in rows if it.difference for end in (it.difference.low, it.difference.high)]
        inner = [end for it in rows if it.difference for end in (it.difference.alone.low, it.difference.alone.high)]
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
        return [(self.at(it / 100), f"{it:g}") for it in values if self.low < it / 100 < self.high]


@dataclass(frozen=True)
class Mark:
    """A row on the scale; all places are from 0 to 100."""

    mean: float
    low: float
    high: float
    alone_low: float
    alone_high: float
    is_cut_below: bool
    """The interval goes on beyond the scale."""
    is_cut_above: bool
    dots: Sequence[tuple[float, str]]
    """Of each seed, with what it is."""


@dataclass(frozen=True)
class Forest:
    """All rows with one decoding."""

    scale: Scale
    marks: dict[str, Mark]
    """By objective."""

    @property
    def zero(self) -> float:
        """Where the baseline lies."""
        return self.scale.at(0.0)


def forest(board: Leaderboard, decoding: Decoding) -> Forest:
    """The differences of avg@k."""
    scale = Scale.over([row.results[decoding].average for row in board.rows])
    marks = {row.objective: _mark(row.results[decoding].average, row.seeds, scale) for row in board.rows}
    return Forest(scale, marks)


def against(measured: Measured) -> list[float]:
    """Each seed's mean minus that of the baseline."""
    baseline = measured.estimate.mean - (measured.difference.mean if measured.difference else 0.0)
    return [mean - baseline for mean in measured.by_seed]


def _mark(measured: Measured, seeds: Sequence[int], scale: Scale) -> Mark:
    mean, low, high, alone_low, alone_high = (0.0,) * 5
    if it := measured.difference:
        mean, low, high, alone_low, alone_high = it.mean, it.low, it.high, it.alone.low, it.alone.high
    dots = [
        (scale.at(place), f"seed {seed}: {100 * value:.1f} ({100 * place:+.1f})")
        for seed, value, place in zip(seeds, measured.by_seed, against(measured), strict=True)
    ]
    return Mark(
        scale.at(mean),
        scale.at(low),
        scale.at(high),
        scale.at(alone_low),
        scale.at(alone_high),
        is_cut_below=low < scale.low,
        is_cut_above=high > scale.high,
        dots=dots,
    )


def as_text(it: Mark, zero: float, is_baseline: bool) -> str:
    """TEXT_WIDTH characters: the baseline's line, the interval of the page, thick where that of the row alone lies."""

    def place(value: float) -> int:
        return round(value / 100 * (TEXT_WIDTH - 1))

    line = [" "] * TEXT_WIDTH
    if not is_baseline:
        line[place(it.low) : place(it.high) + 1] = "─" * (place(it.high) + 1 - place(it.low))
        line[place(it.alone_low) : place(it.alone_high) + 1] = "━" * (place(it.alone_high) + 1 - place(it.alone_low))
        line[place(it.low)] = "◂" if it.is_cut_below else line[place(it.low)]
        line[place(it.high)] = "▸" if it.is_cut_above else line[place(it.high)]
    line[place(zero)] = "┃" if is_baseline else "┼" if line[place(zero)] != " " else "│"
    line[place(it.mean)] = "┃" if is_baseline else "●"
    return "".join(line)
