"""The leaderboard as one picture: accuracies, differences to the baseline, and how they were learnt."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from rlzoo.comparing.leaderboard import Leaderboard, Row
from rlzoo.evaluation.intervals import Estimate
from rlzoo.report.curves import save_figure, themed
from rlzoo.report.figures import strokes
from rlzoo.report.smoothing import smoothed

MARKS = "os^v"
"""One for each decoding."""


def draw_leaderboard(path: Path, board: Leaderboard) -> None:
    """Intervals of 95 % at every decoding, filled where a row may be called better or worse; colours are the rows'."""
    with themed(rc={"text.parse_math": False}):
        save_figure(_figure(board), path)


def _figure(board: Leaderboard) -> Figure:
    figure = Figure(figsize=(13, 2.6 + 0.45 * len(board.rows)), layout="constrained")
    axes = figure.subplots(1, 3, width_ratios=(1, 1, 1.1))
    accuracy, difference, learning = axes
    _draw_intervals(accuracy, board, [[row.results[it].accuracy for row in board.rows] for it in board.decodings])
    accuracy.set_title(f"avg@{board.samples} (%)", loc="left", fontsize=11)
    accuracy.set_yticks(range(len(board.rows)), [_label(row) for row in board.rows])
    for label, row in zip(accuracy.get_yticklabels(), board.rows, strict=True):
        label.set_color(strokes(board.rows)[row.objective].color)
    _draw_intervals(difference, board, [[row.results[it].difference for row in board.rows] for it in board.decodings])
    difference.axvline(0, color="0.3", linewidth=1)
    difference.set_title(f"difference to {board.baseline} (points)", loc="left", fontsize=11)
    difference.set_yticks(range(len(board.rows)), [""] * len(board.rows))
    _draw_learning(learning, board)
    figure.legend(handles=_legend(board), loc="outside lower center", ncols=3, frameon=False, fontsize=10)
    figure.suptitle(board.title, x=0.01, ha="left")
    return figure


def _label(row: Row) -> str:
    name = row.name or row.objective
    return name if len(name) <= 34 else f"{name[:33]}\u2026"


def _legend(board: Leaderboard) -> list[Line2D]:
    def mark(symbol: str, filled: bool, text: str) -> Line2D:
        face = "0.3" if filled else "white"
        return Line2D([], [], marker=symbol, color="0.3", markerfacecolor=face, linestyle="", label=text)

    decodings = [mark(MARKS[i % len(MARKS)], False, str(it)) for i, it in enumerate(board.decodings)]
    return [
        *decodings,
        mark("o", True, f"better or worse than {board.baseline}, corrected for the whole page"),
        Line2D([], [], marker=".", color="0.3", linestyle="", label="one seed"),
    ]


def _draw_intervals(axis: Axes, board: Leaderboard, estimates: Sequence[Sequence[Estimate | None]]) -> None:
    """A point and an interval per row and decoding and a dot per seed, the rows from the top."""
    looks = strokes(board.rows)
    for number, own in enumerate(estimates):
        offset = 0.3 * (number - (len(estimates) - 1) / 2)
        for place, (row, estimate) in enumerate(zip(board.rows, own, strict=True)):
            if estimate is None:
                continue
            measured = row.results[board.decodings[number]].average
            dots = 100 * (np.array(measured.by_seed) + estimate.mean - measured.estimate.mean)
            axis.plot(dots, [place + offset] * len(dots), ".", color=looks[row.objective].color, alpha=0.6, zorder=3)
            is_claim = measured.claim != ""
            axis.errorbar(
                100 * estimate.mean,
                place + offset,
                xerr=[[100 * (estimate.mean - estimate.low)], [100 * (estimate.high - estimate.mean)]],
                fmt=MARKS[number % len(MARKS)],
                color=looks[row.objective].color,
                markerfacecolor=looks[row.objective].color if is_claim else "white",
                markersize=6,
                capsize=2,
            )
    axis.set_ylim(len(board.rows) - 0.5, -0.5)
    axis.grid(axis="y", visible=False)


def _draw_learning(axis: Axes, board: Leaderboard) -> None:
    for row in board.rows:
        stroke, seeds = strokes(board.rows)[row.objective], row.accuracy_curves
        smooth = smoothed(100 * seeds.mean(0))
        steps = np.arange(1, len(smooth) + 1)
        axis.plot(steps, smooth, color=stroke.color, linestyle=stroke.line_style, linewidth=1.6)
    axis.set_title("accuracy of the training rollouts (%)", loc="left", fontsize=11)
    axis.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axis.set_xlabel("step")
