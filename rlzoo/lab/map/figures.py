"""The pictures of the map: who is like whom, as a plane, and who is biased where."""

from collections.abc import Sequence

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure

from rlzoo.lab.map.estimates import plane
from rlzoo.lab.map.zoo_map import RegimeMap, ZooMap
from rlzoo.report.drawing import label_color_bar, row_label

LIKE, UNLIKE, INK = "#1f6fb4", "#c2482d", "0.15"
WHITE_FROM = 0.6
"""How dark a cell is that numbers are white on."""
NAME = 0.18
"""Inches that a name beside a plane takes, so that none covers the next."""
IN_WORDS = {"on_policy": "On-policy rollouts", "stale": "Rollouts of an older policy"}
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
    areas = np.array([60 + 16 * (len(group) - 1) for group in groups])
    points = axis.scatter(
        places[:, 0],
        places[:, 1],
        s=areas,
        c=closeness(biases),
        cmap=colors(),
        vmin=-1,
        vmax=1,
        edgecolors=INK,
        linewidths=0.7,
        zorder=3,
    )
    rows = max(1, len(groups))
    for number, (group, place, area) in enumerate(zip(groups, places, areas, strict=True), 1):
        beside = 1 + float(np.sqrt(area / np.pi / 2))
        axis.annotate(str(number), place, (beside, beside), textcoords="offset points", fontsize=8, color=INK, zorder=4)
        more = f" and {len(group) - 1} more" if len(group) > 1 else ""
        height = 1 - (number - 0.5) / rows
        text = f"{number}  {row_label(group[0], most=1)}{more}"
        axis.text(1.03, height, text, transform=axis.transAxes, fontsize=8, color=INK, va="center")
    axis.set_xlabel("direction of the gradient, first axis (multidimensional scaling)", fontsize=8)
    axis.set_ylabel("second axis", fontsize=8)
    axis.tick_params(labelsize=8)
    axis.grid(color="0.6", alpha=0.3)
    axis.figure.colorbar(points, ax=axis, location="bottom", shrink=0.8, aspect=40, pad=0.02)
    label_color_bar(axis, "against the policy gradient  \u2190  right angle  \u2192  along it")


def bias_figure(zoo_map: ZooMap) -> Figure:
    """The cosine of the expected gradient with the policy gradient, expressions by regimes, alike rows together."""
    regimes = list(zoo_map.regimes)
    rows = [name for name in regimes[0].expressions if all(name in regime_map.expressions for regime_map in regimes)]
    values = np.array([[regime_map.row(name).cosine.mean for regime_map in regimes] for name in rows])
    order = values.mean(1).argsort()[::-1]
    figure = Figure(figsize=(2.8 + 0.42 * len(regimes), 2.0 + 0.22 * len(rows)), layout="constrained")
    axis = figure.subplots()
    sns.heatmap(
        closeness(values[order]),
        ax=axis,
        vmin=-1,
        vmax=1,
        cmap=colors(),
        annot=np.array([[f"{value:.2f}".replace("0.", ".") for value in row] for row in values[order].clip(-1, 1)]),
        fmt="",
        annot_kws={"fontsize": 8},
        cbar_kws={"location": "bottom", "shrink": 0.8, "aspect": 50, "pad": 0.01},
        xticklabels=[regime_map.regime.name.replace("_", " ") for regime_map in regimes],
        yticklabels=[row_label(rows[place]) for place in order],
        linewidths=0.6,
        linecolor="white",
    )
    for cell, value in zip(axis.texts, closeness(values[order]).flat, strict=True):
        cell.set_color("white" if abs(value) > WHITE_FROM else "0.15")
    axis.grid(visible=False)
    axis.xaxis.tick_top()
    axis.tick_params(labelsize=8.5, length=0)
    axis.tick_params(axis="x", rotation=50)
    for label in axis.get_xticklabels():
        label.set(ha="left", rotation_mode="anchor")
    for label in axis.get_yticklabels():
        label.set_linespacing(0.85)
    label_color_bar(axis, "opposite  \u2190  right angle  \u2192  the same direction (numbers: cosines)")
    figure.suptitle("How far each objective's mean gradient points along the policy gradient", fontsize=11)
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
