"""The pictures of the leaderboard: curves and differences of its page, and one picture of all of it."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import seaborn as sns
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from rlzoo.comparing.grid import Identity
from rlzoo.comparing.leaderboard import Leaderboard, LeaderboardRow
from rlzoo.comparing.results import Place
from rlzoo.errors import printable
from rlzoo.report.drawing import INK, WIDTH, draw_estimates, save_figure, smoothed, svg, themed
from rlzoo.report.formatting import tokens
from rlzoo.report.leaderboard_statistics import Statistic, Value, known_statistics, values
from rlzoo.statistics.intervals import Estimate
from rlzoo.statistics.verdicts import Measured

DASHES = ("", "6 2", "2 2", "6 2 2 2")
MARKERS = "osD^vP*X"
SYMBOLS = dict(zip(MARKERS, "●■◆▲▼✚★✖", strict=True))
"""Marker of a figure -> what stands for it in text."""


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


def strokes(rows: Sequence[LeaderboardRow]) -> dict[Identity, Stroke]:
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


def accuracy_over_tokens(board: Leaderboard) -> str:
    """Each row's accuracy over the tokens that it had sampled."""
    looks, curves = strokes(board.rows), board.token_curves
    assert curves

    def draw(axis: Axes) -> None:
        for row in board.rows:
            if curve := curves.rows.get(row.identity):
                few = curve.accuracy[:, None] if curves.is_held_out else _in_blocks(curve.accuracy)
                middles = curve.tokens[:, None] if curves.is_held_out else _in_blocks(curve.tokens)
                stroke = looks[row.identity]
                (line,) = axis.plot(middles.mean(axis=1), 100 * few.mean(axis=1), markersize=4, color=stroke.color)
                line.set(linestyle=stroke.line_style, marker=stroke.marker)
        axis.xaxis.set_major_formatter(lambda value, _: tokens(value))
        axis.set_xlabel("response tokens sampled")
        axis.set_title("accuracy (%)", loc="left", fontsize=10)

    return svg(draw, "accuracy over tokens", width=2 * WIDTH)


def _in_blocks(values: np.ndarray) -> np.ndarray:
    """[blocks, points] of about twenty blocks of training rollouts; what is left over at the start is not drawn."""
    length = max(1, len(values) // 20)
    return values[len(values) % length :].reshape(-1, length)


def pareto_front(board: Leaderboard) -> list[LeaderboardRow]:
    """The rows that no other beats in both accuracy (first decoding) and entropy drift, of the more accurate half.

    A row that hardly learns hardly moves its entropy, which is no merit.
    """
    trainings = board.trainings

    def accuracy(row: LeaderboardRow) -> float:
        return row.results[board.decodings[0]].accuracy.mean

    def drift(row: LeaderboardRow) -> float:
        return trainings[row.identity].drift

    def beaten(row: LeaderboardRow, by: LeaderboardRow) -> bool:
        as_good = accuracy(by) >= accuracy(row) and drift(by) <= drift(row)
        return as_good and (accuracy(by), drift(by)) != (accuracy(row), drift(row))

    least = float(np.median([accuracy(row) for row in board.rows]))
    able = [row for row in board.rows if accuracy(row) >= least]
    return [row for row in able if not any(beaten(row, other) for other in able)]


# ---- differences -----------------------------------------------------------------------------------------------------

DOTS_BELOW = 0.2
"""How far the seeds' dots are below the interval, in rows."""
REACH = 3.0
"""Times the largest difference of a seed that the axis of differences reaches; wider intervals leave the picture."""


def against(measured: Measured) -> list[float]:
    """Each seed's mean minus that of the baseline."""
    baseline = measured.estimate.mean - (measured.difference.mean if measured.difference else 0.0)
    return [mean - baseline for mean in measured.by_seed]


def differences_figure(board: Leaderboard, decoding: Place) -> Markup:
    """The differences of avg@k with one decoding as they are on the page."""

    def draw(axis: Axes) -> None:
        draw_differences(axis, board, decoding)
        axis.set_yticks(range(len(board.rows)), [_label(row, decoding) for row in board.rows])
        for height, row in enumerate(board.rows):
            if difference := row.results[decoding].difference:
                ends = [100 * difference.alone.low, 100 * difference.alone.high]
                axis.plot(ends, [height, height], color=strokes(board.rows)[row.identity].color, linewidth=4)
        dots = [dot for row in board.rows for dot in against(row.results[decoding].average)]
        reach = 100 * REACH * max(0.01, *map(abs, dots))
        axis.set_xlim(*np.clip(axis.get_xlim(), -reach, reach))

    label = f"differences {board.decodings.index(decoding) + 1}"
    return Markup(svg(draw, label, 1.6 * WIDTH, 0.8 + 0.32 * len(board.rows)))


def draw_differences(axis: Axes, board: Leaderboard, decoding: Place) -> None:
    """Differences to the baseline, which hold together, and a dot for each seed."""
    _draw_intervals(axis, board, decoding, [row.results[decoding].difference for row in board.rows])
    axis.axvline(0, color="0.5", linewidth=1)
    axis.set_yticks(range(len(board.rows)), [""] * len(board.rows))


# ---- the picture -----------------------------------------------------------------------------------------------------

MOST_DECODINGS = 4
"""That are drawn; the page has all."""
UNSTABLE = "(unstable)"
PANELS, PANEL_HEIGHT = 6, 1.9
"""Statistics side by side, and the height of each in inches."""


def draw_leaderboard(path: Path, board: Leaderboard) -> None:
    """Intervals of 95 %, an axis for each decoding; filled where a row may be called better or worse."""
    with themed(rc={"text.parse_math": False}):
        save_figure(_figure(board), path)


def _figure(board: Leaderboard) -> Figure:
    panels = known_statistics(board)
    lines, shown = -(-len(panels) // PANELS), board.decodings[:MOST_DECODINGS]
    height = (1.1 + 0.4 * len(board.rows)) * len(shown) + 0.9
    figure = Figure(figsize=(13, height + PANEL_HEIGHT * lines), layout="constrained")
    above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=(height, PANEL_HEIGHT * lines)).flat
    _draw_results(above, board, shown)
    for axis, statistic in zip(below.subplots(lines, PANELS, squeeze=False).flat, panels, strict=False):
        _draw_statistic(axis, statistic, board)
    for axis in below.axes[len(panels) :]:
        axis.set_axis_off()
    below.suptitle(
        f"at {board.decodings[0]}, rows in the order and the colours of above", x=0.01, ha="left", fontsize=10
    )
    left_out = len(board.decodings) - len(shown)
    more = f"   ({left_out} more problem sets and decodings on the page)" if left_out else ""
    figure.suptitle(board.title + more, x=0.01, ha="left")
    return figure


def _draw_results(figure: SubFigure, board: Leaderboard, shown: Sequence[Place]) -> None:
    """A line of axes for each decoding; the curves beside them."""
    ratios = (1, 1, 1.1) if board.is_trained else (1, 1)
    grid = figure.add_gridspec(len(shown), len(ratios), width_ratios=ratios)
    for line, place in enumerate(shown):
        accuracy, difference = (figure.add_subplot(grid[line, column]) for column in (0, 1))
        _draw_intervals(accuracy, board, place, [row.results[place].accuracy for row in board.rows])
        accuracy.set_title(f"{place}: avg@{board.samples_at[place]} (%)", loc="left", fontsize=11)
        accuracy.set_yticks(range(len(board.rows)), [_label(row, place) for row in board.rows])
        for label, row in zip(accuracy.get_yticklabels(), board.rows, strict=True):
            label.set_color(strokes(board.rows)[row.identity].color)
        draw_differences(difference, board, place)
        difference.set_title(f"difference to {board.baseline.name} (points)", loc="left", fontsize=11)
    if board.is_trained:
        learning = figure.add_subplot(grid[:, 2])
        draw_learning(learning, board, accuracy_by_step(board), "accuracy of the training rollouts (%)")
        learning.legend(frameon=False, fontsize=8)
    figure.legend(handles=_legend(board), loc="outside lower center", ncols=2, frameon=False, fontsize=10)


def _draw_statistic(axis: Axes, statistic: Statistic, board: Leaderboard) -> None:
    """A point for each row, with its interval if it has one; a line over the places where there are several."""
    looks, decoding = strokes(board.rows), board.decodings[0]
    for row, (shown, value) in enumerate(zip(board.rows, values(statistic, board, decoding), strict=True)):
        color = looks[shown.identity].color
        if isinstance(value, Mapping):
            heights = [np.nan if number is None else number for number in value.values()]
            axis.plot(list(map(str, value)), heights, ".-", color=color, linewidth=1)
        elif value is not None:
            estimate = _estimate(value)
            axis.plot([estimate.low, estimate.high], [row, row], color=color)
            axis.plot(estimate.mean, row, "o", color=color, markersize=4)
            axis.set_ylim(len(board.rows) - 0.5, -0.5)
            axis.set_yticks([])
    axis.set_title(statistic.heading.format(k=board.samples).strip(" ,@"), loc="left", fontsize=8)
    has_places = any(isinstance(value, Mapping) for value in values(statistic, board, decoding))
    figures = axis.yaxis if has_places else axis.xaxis
    low, high = figures.get_view_interval()
    written = {statistic.write(tick): tick for tick in figures.get_majorticklocs() if low <= tick <= high}
    figures.set_ticks(list(written.values()), list(written))
    axis.tick_params(labelsize=7)


def _estimate(value: Value) -> Estimate:
    if isinstance(value, Measured):
        return value.estimate
    assert not isinstance(value, Mapping) and value is not None
    return value if isinstance(value, Estimate) else Estimate(value, value, value)


def _label(row: LeaderboardRow, place: Place) -> str:
    name = printable(row.name.alias or str(row.name))
    shown = name if len(name) <= 34 else f"{name[:33]}\u2026"
    return f"{shown}\n{UNSTABLE}" if row.results[place].average.verdict.is_unstable else shown


def _legend(board: Leaderboard) -> list[Line2D]:
    claimed = f"filled: better or worse than {board.baseline.name}, corrected for the whole page"
    return [
        Line2D([], [], marker="o", color="0.3", markerfacecolor="0.3", linestyle="", label=claimed),
        Line2D([], [], marker=".", color="0.3", linestyle="", label="one seed"),
    ]


def _draw_intervals(axis: Axes, board: Leaderboard, place: Place, estimates: Sequence[Estimate | None]) -> None:
    """A point and an interval per row and a dot per seed, the rows from the top."""
    looks = strokes(board.rows)
    for height, (row, estimate) in enumerate(zip(board.rows, estimates, strict=True)):
        if estimate is None:
            continue
        measured, color = row.results[place].average, looks[row.identity].color
        dots = 100 * (np.array(measured.by_seed) + estimate.mean - measured.estimate.mean)
        axis.plot(dots, [height + DOTS_BELOW] * len(dots), ".", color=color, alpha=0.6, zorder=3)
        draw_estimates(
            axis,
            [height],
            [estimate],
            is_flat=True,
            fmt="o",
            color=color,
            markerfacecolor=color if measured.verdict.is_claim else "white",
            markersize=6,
            capsize=2,
        )
    axis.set_ylim(len(board.rows) - 0.5, -0.5)
    axis.grid(axis="y", visible=False)
