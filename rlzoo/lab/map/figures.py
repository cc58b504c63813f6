"""The pictures of the map: who is like whom, as a plane, and who is biased where."""

from collections.abc import Sequence

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure

from rlzoo.lab.map.estimates import plane
from rlzoo.lab.map.zoo_map import RegimeMap, ZooMap
from rlzoo.report.drawing import label_color_bar

LIKE, UNLIKE, INK = "#1f6fb4", "#c2482d", "0.15"
WHITE_FROM = 0.6
"""How dark a cell is that numbers are white on."""
LONGEST, ROW = 34, 60
"""Characters of a name in a plane, and beside a row of biases."""
NAME = 0.17
"""Inches that a name beside a plane takes, so that none covers the next."""
IN_WORDS = {"on_policy": "Fresh rollouts", "stale": "Rollouts of an older policy"}
"""What the picture of planes calls its regimes."""
SMALLEST = 3
"""Directions that a plane takes."""


def closeness(cosine: np.ndarray) -> np.ndarray:
    """1 for one direction, 0 for a right angle, -1 for opposite ones: angles tell .99 from .9 better than cosines."""
    return 1 - np.arccos(np.clip(cosine, -1, 1)) / (np.pi / 2)


def colors() -> LinearSegmentedColormap:
    """Blue for like, red for unlike; what is neither is transparent."""
    ends = [(*to_rgb(UNLIKE), 1.0), (*to_rgb(UNLIKE), 0.0), (*to_rgb(LIKE), 0.0), (*to_rgb(LIKE), 1.0)]
    return LinearSegmentedColormap.from_list("closeness", list(zip((0, 0.5, 0.5, 1), ends, strict=True)))


def draw_plane(axis: Axes, regime_map: RegimeMap) -> None:
    """Points with numbers, whose names stand below each other at the right, the largest groups first."""
    groups = sorted(regime_map.groups, key=lambda group: -len(group))
    first = [regime_map.expressions.index(group[0]) for group in groups]
    places = plane(regime_map.cosines[np.ix_(first, first)])
    biases = np.array([regime_map.behaviours[place].cosine.mean for place in first])
    points = axis.scatter(
        places[:, 0],
        places[:, 1],
        s=[60 + 16 * (len(group) - 1) for group in groups],
        c=closeness(biases),
        cmap=colors(),
        vmin=-1,
        vmax=1,
        edgecolors=INK,
        linewidths=0.7,
        zorder=3,
    )
    rows = max(1, len(groups))
    for number, (group, place) in enumerate(zip(groups, places, strict=True), 1):
        axis.annotate(str(number), place, (4, 4), textcoords="offset points", fontsize=7.5, color=INK, zorder=4)
        more = f" and {len(group) - 1} more" if len(group) > 1 else ""
        height = 1 - (number - 0.5) / rows
        text = f"{number}  {shortened_name(group[0])}{more}"
        axis.text(1.03, height, text, transform=axis.transAxes, fontsize=7.5, color=INK, va="center")
    axis.set_xlabel("direction of the gradient, first axis (multidimensional scaling)", fontsize=8)
    axis.set_ylabel("second axis", fontsize=8)
    axis.tick_params(labelsize=7)
    axis.grid(color="0.6", alpha=0.3)
    axis.figure.colorbar(points, ax=axis, location="bottom", shrink=0.8, aspect=40, pad=0.02)
    label_color_bar(axis, "against the policy gradient  \u2190  right angle  \u2192  along it")


def bias_figure(zoo_map: ZooMap) -> Figure:
    """The cosine of the expected gradient with the policy gradient, expressions by regimes, alike rows together."""
    regimes = list(zoo_map.regimes)
    rows = [name for name in regimes[0].expressions if all(name in regime_map.expressions for regime_map in regimes)]
    values = np.array([[regime_map.row(name).cosine.mean for regime_map in regimes] for name in rows])
    order = values.mean(1).argsort()[::-1]
    figure = Figure(figsize=(3.0 + 0.62 * len(regimes), 1.8 + 0.2 * len(rows)), layout="constrained")
    axis = figure.subplots()
    sns.heatmap(
        closeness(values[order]),
        ax=axis,
        vmin=-1,
        vmax=1,
        cmap=colors(),
        annot=np.array([[f"{value:.2f}" for value in row] for row in values[order].clip(-1, 1)]),
        fmt="",
        annot_kws={"fontsize": 7.5},
        cbar_kws={"location": "bottom", "shrink": 0.8, "aspect": 50, "pad": 0.01},
        xticklabels=[regime_map.regime.name.replace("_", "\n") for regime_map in regimes],
        yticklabels=[shortened_name(rows[place], ROW) for place in order],
        linewidths=0.6,
        linecolor="white",
    )
    for cell, value in zip(axis.texts, closeness(values[order]).flat, strict=True):
        cell.set_color("white" if abs(value) > WHITE_FROM else "0.15")
    axis.grid(visible=False)
    axis.xaxis.tick_top()
    axis.tick_params(labelsize=8, length=0)
    label_color_bar(axis, "opposite  \u2190  right angle  \u2192  the same direction (numbers: cosines)")
    axis.set_title("How far each objective's mean gradient points along the policy gradient, by regime", fontsize=11)
    return figure


def plane_figure(maps: Sequence[RegimeMap]) -> Figure:
    """The planes of regimes that are among `IN_WORDS`."""
    heights = [max(7.0, 1.8 + NAME * len(regime_map.groups)) for regime_map in maps]
    figure = Figure(figsize=(8, sum(heights)), layout="constrained")
    axes = figure.subplots(len(maps), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axis, regime_map in zip(axes, maps, strict=True):
        draw_plane(axis, regime_map)
        count = f"{len(regime_map.expressions)} objectives, {len(regime_map.groups)} directions"
        axis.set_title(f"{IN_WORDS[regime_map.regime.name]}: {count}", loc="left", fontsize=11)
    figure.supxlabel(
        "A point is a direction; near points are gradients that are alike; larger: more objectives.", fontsize=8
    )
    return figure


def shortened_name(expression: str, longest: int = LONGEST) -> str:
    """As much of an expression as a label holds."""
    return expression if len(expression) <= longest else f"{expression[: longest - 1]}\u2026"
