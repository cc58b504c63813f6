"""The pictures of the leaderboard: curves and differences of its page, and one picture to pass on."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas
import seaborn as sns
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import MaxNLocator

from rlzoo.comparing.grid import Identity
from rlzoo.comparing.leaderboard import Leaderboard, LeaderboardRow
from rlzoo.report.drawing import DOWN, INK, UP, WIDTH, row_label, save_figure, smoothed, svg, themed
from rlzoo.report.leaderboard_statistics import PICTURED, in_percent

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


def learning_curves(board: Leaderboard) -> list[Markup]:
    """Accuracy of the training rollouts by step, with the held-out evaluations on the way, in %; then the entropy."""
    trainings = board.trainings.items()
    accuracies = {row: smoothed(100 * runs.accuracy_curves) for row, runs in trainings}
    entropies = {row: smoothed(runs.entropy_curves) for row, runs in trainings}
    looks = strokes(board.rows)

    def draw(axis: Axes) -> None:
        draw_learning(axis, board, accuracies, "accuracy of the training rollouts (%)")
        for row, runs in trainings:
            steps, values = list(runs.held_out), [100 * value for value in runs.held_out.values()]
            axis.plot(steps, values, looks[row].marker, color=looks[row].color, markersize=5, clip_on=False)

    def draw_entropy(axis: Axes) -> None:
        draw_learning(axis, board, entropies, "entropy of the policy (nats)")

    return [Markup(svg(draw, "accuracy by step")), Markup(svg(draw_entropy, "entropy by step"))]


def draw_learning(axis: Axes, board: Leaderboard, smooth: Mapping[Identity, np.ndarray], title: str) -> None:
    """The mean of the seeds in a band from the lowest to the highest."""
    looks = strokes(board.rows)
    for row, curves in smooth.items():
        stroke = looks[row]
        steps = np.arange(1, curves.shape[1] + 1)
        axis.fill_between(steps, curves.min(0), curves.max(0), color=stroke.color, alpha=0.13, linewidth=0)
        axis.plot(steps, curves.mean(0), color=stroke.color, linestyle=stroke.line_style, linewidth=1.6)
    axis.set_xlabel("step")
    axis.set_title(title, loc="left", fontsize=10)
    axis.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))


# ---- records as dots -------------------------------------------------------------------------------------------------

# What follows draws records as `leaderboard.csv` has them, so that a picture can be made again from that file.

DOTS_BELOW = 0.2
"""How far the seeds' dots are below the interval, in rows."""
REACH = 3.0
"""Times the largest difference of a seed that the axis of differences reaches; wider intervals leave the picture."""
ON_PAGES = {"better": UP, "worse": DOWN, "": INK}
ON_WHITE = {"better": "#1f6fb4", "worse": "#c2482d", "": "0.4"}
"""What a verdict begins with, and the color of its row."""
BASELINE = "baseline"
UNTRAINED = "untrained model"
"""The name of its row."""


def differences_figure(table: pandas.DataFrame, label: str) -> Markup:
    """The differences of avg@k with one decoding as they are on the page."""

    def draw(axis: Axes) -> None:
        draw_differences(axis, table, ON_PAGES)

    return Markup(svg(draw, label, 1.6 * WIDTH, 0.8 + _row_height([table], 0.32) * len(table)))


def draw_differences(axis: Axes, table: pandas.DataFrame, colors: Mapping[str, str]) -> None:
    """Differences to the baseline, which hold together, thick those of the row alone, and a dot for each seed."""
    is_baseline = table.verdict.str.startswith(BASELINE)
    seeds = (_seeds(table) - table.accuracy[is_baseline].iloc[0])[~is_baseline.to_numpy()]
    _draw_estimates(axis, table, "difference", colors, 100)
    for place, (_, row) in enumerate(table.iterrows()):
        ends = [100 * row.get(f"difference_alone_{end}", np.nan) for end in ("low", "high")]
        axis.plot(ends, [place, place], color=_color(row.verdict, colors), linewidth=4, zorder=1.5)
    _draw_seeds(axis, table[~is_baseline], seeds, np.flatnonzero(~is_baseline).tolist(), colors)
    reach = 100 * REACH * max(0.01, np.nanmax(np.abs(seeds), initial=0.0))
    axis.set_xlim(*np.clip(axis.get_xlim(), -reach, reach))
    axis.axvline(0, color="0.5", linewidth=1)


def _seeds(table: pandas.DataFrame) -> np.ndarray:
    """[rows, seeds] avg@k, NaN where a row has not a seed."""
    return table.filter(regex="^accuracy_seed_").to_numpy(dtype=np.float64)


def _draw_seeds(
    axis: Axes, table: pandas.DataFrame, values: np.ndarray, places: Sequence[int], colors: Mapping[str, str]
) -> None:
    for place, verdict, by_seed in zip(places, table.verdict, values, strict=True):
        heights = [place + DOTS_BELOW] * len(by_seed)
        axis.plot(100 * by_seed, heights, ".", color=_color(verdict, colors), alpha=0.6, markersize=4, zorder=3)


def _draw_estimates(
    axis: Axes, table: pandas.DataFrame, name: str, colors: Mapping[str, str], scale: float = 1.0
) -> None:
    """A point for each row from the top, filled where it is called better or worse, and its interval if it has one."""
    for place, (_, row) in enumerate(table.iterrows()):
        mean, color = row.get(name, np.nan), _color(row.verdict, colors)
        low, high = row.get(f"{name}_low", mean), row.get(f"{name}_high", mean)
        axis.plot([scale * low, scale * high], [place, place], color=color, linewidth=1.5)
        fill = "white" if color == colors[""] else color
        axis.plot(scale * mean, place, "o", color=color, markerfacecolor=fill, markersize=5)
    axis.set_yticks(range(len(table)), list(map(_label, table.objective, table.verdict)))
    axis.set_ylim(len(table) - 0.5, -0.5)
    axis.grid(axis="y", visible=False)


def _color(verdict: str, colors: Mapping[str, str]) -> str:
    return colors.get(verdict.partition(",")[0], colors[""])


def _label(name: str, verdict: str) -> str:
    return f"{row_label(name)}\n{UNSTABLE}" if UNSTABLE in verdict else row_label(name)


def _row_height(tables: Sequence[pandas.DataFrame], least: float) -> float:
    """Inches for a row, in which the label with the most lines has room."""
    lines = [_label(row.objective, row.verdict).count("\n") + 1 for table in tables for row in table.itertuples()]
    return max(least, 0.16 * max(lines))


# ---- the picture -----------------------------------------------------------------------------------------------------

MOST_DECODINGS = 2
"""That are drawn; the page has all."""
UNSTABLE = "unstable"
PICTURE_WIDTH, PANELS = 8.0, 3
"""Inches, so that its letters are legible at 600 pixels; and statistics side by side."""
CAPTION = (
    "Lines: 95 % intervals; those of differences hold for all rows together, and thick for a row alone.\n"
    "Filled: better or worse than the baseline, corrected for everything that is compared. Small dots: seeds."
)


def draw_leaderboard(
    path: Path, title: str, tables: Mapping[str, pandas.DataFrame], untrained: Mapping[str, Sequence[float]]
) -> None:
    """Draws the records of each decoding, under what it is called, with what the untrained model has on each seed."""
    with themed(rc={"text.parse_math": False}):
        save_figure(leaderboard_figure(title, tables, untrained), path)


def leaderboard_figure(
    title: str, tables: Mapping[str, pandas.DataFrame], untrained: Mapping[str, Sequence[float]]
) -> Figure:
    """Accuracies, differences and verdicts with each decoding; below, other statistics with the first one."""
    shown = list(tables.items())[:MOST_DECODINGS]
    name, first = shown[0]
    panels = [it for it in PICTURED if it.name in first and first[it.name].notna().any()]
    lines, rows = [panels[start : start + PANELS] for start in range(0, len(panels), PANELS)], len(first)
    row, small = _row_height([table for _, table in shown], 0.3), _row_height([first], 0.2)
    heights = [0.9 + row * (rows + bool(untrained))] * len(shown) + [0.7 + small * rows] * len(lines)
    figure = Figure(figsize=(PICTURE_WIDTH, sum(heights) + 0.8), layout="constrained")
    parts = iter(figure.subfigures(len(heights), 1, squeeze=False, height_ratios=heights).flat)
    for decoding, table in shown:
        _draw_decoding(next(parts), decoding, table, untrained.get(decoding, ()))
    for line in lines:
        part = next(parts)
        if line is lines[0]:
            part.suptitle(f"{name}, coloured by the verdict above", x=0.01, ha="left", fontsize=10, weight="bold")
        axes = part.subplots(1, PANELS, sharey=True)
        for axis, statistic in zip(axes, line, strict=False):
            _draw_estimates(axis, first, statistic.name, ON_WHITE, 100 if statistic.write is in_percent else 1)
            axis.set_title(statistic.pictured, loc="left", fontsize=8.5)
            axis.tick_params(labelsize=8)
            axis.xaxis.set_major_locator(MaxNLocator(nbins=4))
        for axis in axes[len(line) :]:
            axis.set_axis_off()
    left_out = len(tables) - len(shown)
    figure.suptitle(title + (f" ({left_out} more on the page)" if left_out else ""), x=0.01, ha="left", fontsize=12)
    figure.supxlabel(CAPTION, x=0.01, ha="left", fontsize=8)
    return figure


def _draw_decoding(figure: SubFigure, decoding: str, table: pandas.DataFrame, untrained: Sequence[float]) -> None:
    """Accuracies left, differences to the baseline right, the verdicts in words behind them."""
    accuracy, difference = figure.subplots(1, 2, sharey=True)
    figure.suptitle(decoding, x=0.01, ha="left", fontsize=10, weight="bold")
    _draw_estimates(accuracy, table, "accuracy", ON_WHITE, 100)
    _draw_seeds(accuracy, table, _seeds(table), range(len(table)), ON_WHITE)
    draw_differences(difference, table, ON_WHITE)
    accuracy.set_title("accuracy after the last step (%)", loc="left", fontsize=9)
    baseline = next(iter(table.objective[table.verdict.str.startswith(BASELINE)]))
    difference.set_title(f"difference to {row_label(baseline, most=1)} (points)", loc="left", fontsize=9)
    for axis in (accuracy, difference):
        axis.tick_params(labelsize=9)
    behind = difference.get_yaxis_transform()
    for place, verdict in enumerate(table.verdict):
        difference.text(
            1.02, place, verdict, transform=behind, fontsize=9, va="center", color=_color(verdict, ON_WHITE)
        )
    if untrained:
        _draw_untrained(accuracy, untrained, len(table))


def _draw_untrained(axis: Axes, by_seed: Sequence[float], place: int) -> None:
    """Its accuracy below the rows, a dot for each seed."""
    color, labels = ON_WHITE[""], [label.get_text() for label in axis.get_yticklabels()]
    axis.plot(100 * np.mean(by_seed), place, "D", color=color, markerfacecolor="white", markersize=5)
    axis.plot(100 * np.asarray(by_seed), [place + DOTS_BELOW] * len(by_seed), ".", color=color, alpha=0.6, markersize=4)
    axis.set_yticks(range(place + 1), [*labels, UNTRAINED])
    axis.set_ylim(place + 0.5, -0.5)
