"""The figures of the leaderboard's page, as SVG elements."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import seaborn as sns
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.ticker import MaxNLocator

from rlzoo.comparing.grid import Identity
from rlzoo.comparing.leaderboard import BoardRow, Leaderboard
from rlzoo.comparing.sweep import number
from rlzoo.errors import printable
from rlzoo.report.curves import draw_estimates
from rlzoo.report.formatting import tokens
from rlzoo.report.smoothing import smoothed
from rlzoo.report.svg import INK, WIDTH, svg
from rlzoo.statistics.scaling import SigmoidFit

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


def strokes(rows: Sequence[BoardRow]) -> dict[Identity, Stroke]:
    """Colours that are legible on white and on black alike, with dashes for those who do not tell them apart."""
    identities = [row.identity for row in sorted(rows, key=lambda row: str(row.name))]
    colors = sns.husl_palette(len(identities), h=0.05, s=0.85, l=0.57)
    looks = zip(colors, itertools.cycle(DASHES), itertools.cycle(MARKERS), strict=False)
    return {row: Stroke(to_hex(color), *look) for row, (color, *look) in zip(identities, looks, strict=True)}


@dataclass(frozen=True)
class CurveFigure:
    """A figure over steps, and what stands under the pointer."""

    svg: Markup
    title: str
    first: int
    """The step at its left end."""
    last: int
    series: Sequence[Mapping[str, Any]]
    """Name, colour, values by step, and held-out ones at some steps."""


def accuracy_curves(board: Leaderboard) -> CurveFigure:
    """Accuracy of the training rollouts by step, with the held-out evaluations on the way, in %."""
    trainings = board.trainings.items()
    held_out = {row: {step: 100 * value for step, value in runs.held_out.items()} for row, runs in trainings}
    return _curves(board, accuracy_by_step(board), "accuracy of the training rollouts (%)", held_out)


def accuracy_by_step(board: Leaderboard) -> dict[Identity, np.ndarray]:
    """[seeds, steps] of each row, smoothed, in %."""
    return {row: smoothed(100 * runs.accuracy_curves) for row, runs in board.trainings.items()}


def entropy_curves(board: Leaderboard) -> CurveFigure:
    """Entropy by step."""
    smooth = {row: smoothed(runs.entropy_curves) for row, runs in board.trainings.items()}
    return _curves(board, smooth, "entropy of the policy (nats)", {})


def draw_learning(axis: Axes, board: Leaderboard, smooth: Mapping[Identity, np.ndarray], title: str) -> None:
    """The mean of the seeds in a band from the lowest to the highest."""
    looks = strokes(board.rows)
    for row, curves in smooth.items():
        stroke = looks[row]
        steps = np.arange(1, curves.shape[1] + 1)
        axis.fill_between(steps, curves.min(0), curves.max(0), color=stroke.color, alpha=0.13, linewidth=0)
        name = printable(str(board.names[row]))
        axis.plot(steps, curves.mean(0), color=stroke.color, linestyle=stroke.line_style, linewidth=1.6, label=name)
    axis.set_xlabel("step")
    axis.set_title(title, loc="left", fontsize=10)
    axis.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))


def _curves(
    board: Leaderboard,
    smooth: Mapping[Identity, np.ndarray],
    title: str,
    held_out: Mapping[Identity, Mapping[int, float]],
) -> CurveFigure:
    """The axis reaches as far as the curves and the points do."""
    first = min((step for points in held_out.values() for step in points), default=1)
    first, last = min(first, 1), max(curves.shape[1] for curves in smooth.values())
    looks = strokes(board.rows)

    def draw(axis: Axes) -> None:
        draw_learning(axis, board, smooth, title)
        for row, points in held_out.items():
            steps, values = list(points), list(points.values())
            axis.plot(steps, values, looks[row].marker, color=looks[row].color, markersize=5, clip_on=False)
        axis.set_xlim(first, max(last, first + 1))

    series = [
        {
            "name": printable(str(board.names[row])),
            "color": stroke.color,
            "values": [round(float(value), 4) for value in smooth[row].mean(0)],
            "heldOut": {step: round(value, 1) for step, value in held_out.get(row, {}).items()},
        }
        for row, stroke in looks.items()
    ]
    return CurveFigure(Markup(svg(draw, title)), title, first, max(last, first + 1), series)


def swept_curves(board: Leaderboard) -> list[str]:
    """For every parameter or key that was swept over numbers: avg@k at the first decoding over its values."""
    names = dict.fromkeys(name for row in board.rows for name, _ in row.sweep.values)
    swept = [(name, _families(board, name)) for name in names]
    return [_swept_curve(board, name, them) for name, them in swept if any(len(rows) > 1 for rows in them.values())]


def _families(board: Leaderboard, name: str) -> dict[str, list[tuple[float, BoardRow]]]:
    """The rows that differ in this alone, by its value."""
    families: dict[str, list[tuple[float, BoardRow]]] = {}
    for row in board.rows:
        values = dict(row.sweep.values)
        place = number(values.pop(name, ""))
        if place is not None:
            label = " ".join([row.sweep.family, *(f"{other}={value}" for other, value in values.items())])
            families.setdefault(label, []).append((place, row))
    return {label: sorted(rows, key=lambda pair: pair[0]) for label, rows in families.items()}


def _swept_curve(board: Leaderboard, name: str, families: Mapping[str, Sequence[tuple[float, BoardRow]]]) -> str:
    looks = strokes(board.rows)
    decoding = board.decodings[0]

    def draw(axis: Axes) -> None:
        for label, rows in families.items():
            stroke = looks[rows[0][1].identity]
            draw_estimates(
                axis,
                [place for place, _ in rows],
                [row.results[decoding].accuracy for _, row in rows],
                label=printable(label),
                color=stroke.color,
                marker=stroke.marker,
                linestyle=stroke.line_style,
                capsize=2,
            )
            for place, row in rows:
                dots = [100 * mean for mean in row.results[decoding].average.by_seed]
                axis.plot([place] * len(dots), dots, ".", color=stroke.color, alpha=0.6)
        places = [place for rows in families.values() for place, _ in rows]
        if min(places) > 0 and max(places) / min(places) >= 10:
            axis.set_xscale("log")
        axis.set_xlabel(printable(name))
        axis.set_title(f"avg@{board.samples} (%) at {decoding}", loc="left", fontsize=10)
        axis.legend(frameon=False)

    return svg(draw, f"accuracy over {name}")


def accuracy_against_drift(board: Leaderboard) -> str:
    """Each row at its accuracy and its entropy's drift, and the front of the more accurate ones."""
    decoding, trainings = board.decodings[0], board.trainings

    def draw(axis: Axes) -> None:
        front = sorted(pareto_front(board), key=lambda row: trainings[row.identity].drift)
        accuracy = [100 * row.results[decoding].accuracy.mean for row in front]
        drifts = [trainings[row.identity].drift for row in front]
        axis.step(drifts, accuracy, where="post", color=INK, alpha=0.5, linewidth=1, zorder=0)
        looks = strokes(board.rows)
        for row in board.rows:
            stroke = looks[row.identity]
            draw_estimates(
                axis,
                [trainings[row.identity].drift],
                [row.results[decoding].accuracy],
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


def scaling_fits(board: Leaderboard) -> str:
    """Each row's accuracy over the tokens that it had sampled, and the sigmoids that the rows determine."""
    looks, scaling = strokes(board.rows), board.scaling
    assert scaling

    def draw(axis: Axes) -> None:
        known = {row.identity: scaling.rows[row.identity] for row in board.rows if row.identity in scaling.rows}
        last = max(row.tokens[-1] for row in scaling.rows.values())
        for place, (identity, row) in enumerate(known.items()):
            stroke = looks[identity]
            few = row.accuracy[:, None] if scaling.is_held_out else _in_blocks(row.accuracy)
            middles = row.tokens[:, None] if scaling.is_held_out else _in_blocks(row.tokens)
            axis.plot(
                middles.mean(axis=1), 100 * few.mean(axis=1), stroke.marker, color=stroke.color, markersize=4, alpha=0.5
            )
            if isinstance(row.fit, SigmoidFit):
                spent = np.linspace(0, row.tokens[-1], 200)
                axis.plot(spent, 100 * row.fit.curve.at(spent), color=stroke.color, linestyle=stroke.line_style)
                end = last * (1.04 + 0.02 * place)
                draw_estimates(axis, [end], [row.fit.asymptote], fmt=stroke.marker, color=stroke.color, capsize=2)
        axis.xaxis.set_major_formatter(lambda value, _: tokens(value))
        axis.set_xlabel("response tokens sampled")
        axis.set_title("accuracy (%)", loc="left", fontsize=10)

    return svg(draw, "accuracy over tokens", width=2 * WIDTH)


def _in_blocks(values: np.ndarray) -> np.ndarray:
    """[blocks, points] of about twenty blocks of training rollouts; what is left over at the start is not drawn."""
    length = max(1, len(values) // 20)
    return values[len(values) % length :].reshape(-1, length)


def pareto_front(board: Leaderboard) -> list[BoardRow]:
    """The rows that no other beats in both accuracy (first decoding) and entropy drift, of the more accurate half.

    A row that hardly learns hardly moves its entropy, which is no merit.
    """
    trainings = board.trainings

    def accuracy(row: BoardRow) -> float:
        return row.results[board.decodings[0]].accuracy.mean

    def drift(row: BoardRow) -> float:
        return trainings[row.identity].drift

    def beaten(row: BoardRow, by: BoardRow) -> bool:
        as_good = accuracy(by) >= accuracy(row) and drift(by) <= drift(row)
        return as_good and (accuracy(by), drift(by)) != (accuracy(row), drift(row))

    least = float(np.median([accuracy(row) for row in board.rows]))
    able = [row for row in board.rows if accuracy(row) >= least]
    return [row for row in able if not any(beaten(row, other) for other in able)]
