"""The figures of the leaderboard's page, as SVG elements."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import seaborn as sns
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.ticker import MaxNLocator

from rlzoo.comparing.leaderboard import Leaderboard, Row
from rlzoo.comparing.sweep import number
from rlzoo.report.smoothing import smoothed
from rlzoo.report.svg import INK, svg
from rlzoo.report.words import printable

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


@dataclass(frozen=True)
class Curves:
    """A figure over steps, and what stands under the pointer."""

    svg: Markup
    title: str
    first: int
    """The step at its left end."""
    last: int
    series: Sequence[Mapping[str, Any]]
    """Name, colour, values by step, and held-out ones at some steps."""


def accuracy_curves(board: Leaderboard) -> Curves:
    """Accuracy of the training rollouts by step, with the held-out evaluations on the way, in %."""
    held_out = {row.objective: {step: 100 * value for step, value in row.held_out.items()} for row in board.rows}
    return _curves(board, lambda row: 100 * row.accuracy_curves, "accuracy of the training rollouts (%)", held_out)


def entropy_curves(board: Leaderboard) -> Curves:
    """Entropy by step."""
    return _curves(board, lambda row: row.entropy_curves, "entropy of the policy (nats)", {})


def _curves(
    board: Leaderboard,
    values: Callable[[Row], np.ndarray],
    title: str,
    held_out: Mapping[str, Mapping[int, float]],
) -> Curves:
    """The mean of the seeds in a band from the lowest to the highest; the axis reaches as far as these do."""
    rows = {row.objective: row for row in board.rows}
    smooth = {name: smoothed(values(row)) for name, row in rows.items()}
    first = min((step for points in held_out.values() for step in points), default=1)
    first, last = min(first, 1), max(curves.shape[1] for curves in smooth.values())

    def draw(axis: Axes) -> None:
        for name, stroke in strokes(board.rows).items():
            curves = smooth[name]
            steps = np.arange(1, curves.shape[1] + 1)
            axis.fill_between(steps, curves.min(0), curves.max(0), color=stroke.color, alpha=0.13, linewidth=0)
            axis.plot(steps, curves.mean(0), color=stroke.color, linestyle=stroke.line_style, linewidth=1.6)
            points = held_out.get(name, {})
            axis.plot(
                list(points), list(points.values()), stroke.marker, color=stroke.color, markersize=5, clip_on=False
            )
        axis.set_xlim(first, max(last, first + 1))
        axis.set_xlabel("step")
        axis.set_title(title, loc="left", fontsize=10)
        axis.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))

    series = [
        {
            "name": printable(name),
            "color": stroke.color,
            "values": [round(float(value), 4) for value in smooth[name].mean(0)],
            "heldOut": {step: round(value, 1) for step, value in held_out.get(name, {}).items()},
        }
        for name, stroke in strokes(board.rows).items()
    ]
    return Curves(Markup(svg(draw, title)), title, first, max(last, first + 1), series)


def swept_curves(board: Leaderboard) -> list[str]:
    """For every parameter or key that was swept over numbers: avg@k at the first decoding over its values."""
    names = dict.fromkeys(name for row in board.rows for name, _ in row.sweep.values)
    found = [(name, _families(board, name)) for name in names]
    return [_swept_curve(board, name, them) for name, them in found if any(len(own) > 1 for own in them.values())]


def _families(board: Leaderboard, name: str) -> dict[str, list[tuple[float, Row]]]:
    """The rows that differ in this alone, by its value."""
    families: dict[str, list[tuple[float, Row]]] = {}
    for row in board.rows:
        values = dict(row.sweep.values)
        place = number(values.pop(name, ""))
        if place is not None:
            label = " ".join([row.sweep.family, *(f"{it}={value}" for it, value in values.items())])
            families.setdefault(label, []).append((place, row))
    return {label: sorted(own, key=lambda it: it[0]) for label, own in families.items()}


def _swept_curve(board: Leaderboard, name: str, families: Mapping[str, Sequence[tuple[float, Row]]]) -> str:
    looks = strokes(board.rows)
    decoding = board.decodings[0]

    def draw(axis: Axes) -> None:
        for label, own in families.items():
            stroke = looks[own[0][1].objective]
            estimates = [row.results[decoding].accuracy for _, row in own]
            means = [100 * it.mean for it in estimates]
            reach = [[100 * (it.mean - it.low) for it in estimates], [100 * (it.high - it.mean) for it in estimates]]
            axis.errorbar(
                [place for place, _ in own],
                means,
                yerr=reach,
                capsize=2,
                label=printable(label),
                color=stroke.color,
                marker=stroke.marker,
                linestyle=stroke.line_style,
            )
            for place, row in own:
                dots = [100 * mean for mean in row.results[decoding].average.by_seed]
                axis.plot([place] * len(dots), dots, ".", color=stroke.color, alpha=0.6)
        places = [place for own in families.values() for place, _ in own]
        if min(places) > 0 and max(places) / min(places) >= 10:
            axis.set_xscale("log")
        axis.set_xlabel(printable(name))
        axis.set_title(f"avg@{board.samples} (%) at {decoding}", loc="left", fontsize=10)
        axis.legend(frameon=False)

    return svg(draw, f"accuracy over {name}")


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
