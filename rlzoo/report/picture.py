"""The leaderboard as one picture: accuracies, differences to the baseline, and how they were learnt."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D

from rlzoo.comparing.leaderboard import BoardRow, Leaderboard
from rlzoo.comparing.problem_sets import Place
from rlzoo.report.board_statistics import BY_DECODING, BY_ROW, Statistic, Value, columns, values
from rlzoo.report.curves import draw_estimates, save_figure, themed
from rlzoo.report.figures import accuracy_by_step, draw_learning, strokes
from rlzoo.statistics.intervals import Estimate
from rlzoo.statistics.verdicts import Measured

MOST_DECODINGS = 4
"""That are drawn; the page has all."""
UNSTABLE = "(unstable)"
DOTS_BELOW = 0.2
"""How far the seeds' dots are below the interval, in rows."""
PANELS, PANEL_HEIGHT = 6, 1.9
"""Statistics side by side, and the height of each in inches."""


def draw_leaderboard(path: Path, board: Leaderboard) -> None:
    """Intervals of 95 %, an axis for each decoding; filled where a row may be called better or worse."""
    with themed(rc={"text.parse_math": False}):
        save_figure(_figure(board), path)


def _figure(board: Leaderboard) -> Figure:
    statistics = [statistic for table in (*BY_DECODING.values(), *BY_ROW.values()) for statistic in table]
    panels = [statistic for statistic in statistics if columns([statistic], board, board.decodings[0])]
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
        _draw_intervals(difference, board, place, [row.results[place].difference for row in board.rows])
        difference.axvline(0, color="0.3", linewidth=1)
        difference.set_title(f"difference to {board.baseline.name} (points)", loc="left", fontsize=11)
        difference.set_yticks(range(len(board.rows)), [""] * len(board.rows))
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


def _label(row: BoardRow, place: Place) -> str:
    name = row.name.alias or str(row.name)
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
