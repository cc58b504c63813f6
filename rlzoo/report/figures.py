"""The figures of the leaderboard's page, as SVG elements."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.ticker import MaxNLocator

from rlzoo.comparing.leaderboard import Leaderboard, Row
from rlzoo.report.smoothing import smoothed
from rlzoo.report.svg import INK, svg

DASHES = ("", "6 2", "2 2", "6 2 2 2")
MARKERS = "osD^vP*X"


@dataclass(frozen=True)
class Stroke:
    """How a row is drawn in every figure."""

    color: str
    dashes: str
    marker: str

    @property
    def line_style(self) -> str | tuple[int, tuple[float, ...]]:
        """As matplotlib wants it."""
        return (0, tuple(float(length) for length in self.dashes.split())) if self.dashes else "solid"


def strokes(rows: Sequence[Row]) -> dict[str, Stroke]:
    """Colours that are legible on white and on black alike, with dashes for those who do not tell them apart."""
    names = sorted(row.objective for row in rows)
    colors = sns.husl_palette(len(names), h=0.05, s=0.85, l=0.57)
    looks = zip(colors, itertools.cycle(DASHES), itertools.cycle(MARKERS), strict=False)
    return {name: Stroke(to_hex(color), *look) for name, (color, *look) in zip(names, looks, strict=True)}


def accuracy_curves(board: Leaderboard) -> str:
    """Accuracy of the training rollouts by step, the mean of the seeds in a band from the lowest to the highest."""
    return _curves(board, lambda row: row.accuracy_curves, "accuracy of the training rollouts", (0, 1))


def entropy_curves(board: Leaderboard) -> str:
    """Entropy by step."""
    return _curves(board, lambda row: row.entropy_curves, "entropy of the policy (nats)", (0, None))


def _curves(
    board: Leaderboard, values: Callable[[Row], np.ndarray], title: str, limits: tuple[float, float | None]
) -> str:
    def draw(axis: Axes) -> None:
        for name, stroke in strokes(board.rows).items():
            row = next(row for row in board.rows if row.objective == name)
            seeds = values(row)
            smooth = smoothed(seeds)
            steps = np.arange(1, seeds.shape[1] + 1)
            axis.fill_between(steps, smooth.min(0), smooth.max(0), color=stroke.color, alpha=0.18, linewidth=0)
            axis.plot(steps, smooth.mean(0), color=stroke.color, linestyle=stroke.line_style, linewidth=1.6)
        axis.set_xlabel("step")
        axis.set_title(title, loc="left", fontsize=10)
        axis.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        axis.set_ylim(bottom=limits[0], top=limits[1])

    return svg(draw, title)


def accuracy_against_drift(board: Leaderboard) -> str:
    """Each row at its accuracy and its entropy's drift, and the rows that no other beats in both."""
    decoding = board.decodings[0]

    def draw(axis: Axes) -> None:
        front = sorted(pareto_front(board), key=lambda row: row.drift)
        accuracy = [100 * row.results[decoding].accuracy.mean for row in front]
        axis.step([row.drift for row in front], accuracy, where="post", color=INK, alpha=0.5, linewidth=1, zorder=0)
        for name, stroke in strokes(board.rows).items():
            row = next(row for row in board.rows if row.objective == name)
            estimate = row.results[decoding].accuracy
            spread = [[100 * (estimate.mean - estimate.low)], [100 * (estimate.high - estimate.mean)]]
            axis.errorbar(
                row.drift,
                100 * estimate.mean,
                yerr=spread,
                fmt=stroke.marker,
                color=stroke.color,
                markersize=7,
                elinewidth=1.2,
                capsize=2,
                markerfacecolor=stroke.color if row in front else "none",
            )
        axis.xaxis.set_major_locator(MaxNLocator(nbins=6))
        axis.set_xlabel("mean distance of the entropy from its start (nats)")
        axis.set_title(f"avg@{board.samples} (%) at {decoding}", loc="left", fontsize=10)

    return svg(draw, "accuracy against entropy stability")


def pareto_front(board: Leaderboard) -> list[Row]:
    """The rows that no other row beats in both accuracy (first decoding) and entropy drift."""

    def accuracy(row: Row) -> float:
        return row.results[board.decodings[0]].accuracy.mean

    def beaten(row: Row, by: Row) -> bool:
        as_good = accuracy(by) >= accuracy(row) and by.drift <= row.drift
        return as_good and (accuracy(by), by.drift) != (accuracy(row), row.drift)

    return [row for row in board.rows if not any(beaten(row, other) for other in board.rows)]
