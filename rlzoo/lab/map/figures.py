"""The pictures of the map: who is like whom, as a clustered matrix and as a plane, and who is biased where."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from rlzoo.lab.map.estimates import links, plane
from rlzoo.lab.map.zoo_map import RegimeMap, ZooMap
from rlzoo.report.drawing import INK, SOFT, figure_as_svg, label_color_bar, page_style, svg

LIKE, UNLIKE = "#1f6fb4", "#c2482d"
WHITE_FROM = 0.6
"""How dark a cell is that numbers are white on."""
LONGEST, ROW = 34, 60
"""Characters of a name in a matrix or a plane, and beside a row of biases."""
IN_WORDS = {"on_policy": "Fresh rollouts", "stale": "Rollouts of an older policy"}
"""What the picture of planes calls its regimes."""
SMALLEST = 3
"""Expressions that a matrix or a plane takes."""


def closeness(cosine: np.ndarray) -> np.ndarray:
    """1 for one direction, 0 for a right angle, -1 for opposite ones: angles tell .99 from .9 better than cosines."""
    return 1 - np.arccos(np.clip(cosine, -1, 1)) / (np.pi / 2)


def colors() -> LinearSegmentedColormap:
    """What is neither like nor unlike is transparent, so that it fits light pages and dark ones."""
    ends = [(*to_rgb(UNLIKE), 1.0), (*to_rgb(UNLIKE), 0.0), (*to_rgb(LIKE), 0.0), (*to_rgb(LIKE), 1.0)]
    return LinearSegmentedColormap.from_list("closeness", list(zip((0, 0.5, 0.5, 1), ends, strict=True)))


def cluster_svg(regime_map: RegimeMap) -> str:
    """The cosines of all pairs, alike ones beside each other; frames are groups that are the same."""
    label = f"cosines of gradients, {regime_map.regime.name}"
    with page_style(label):
        figure = _clustered(regime_map, INK)
        plt.close(figure)
        return figure_as_svg(figure, label)


def cluster_figure(regime_map: RegimeMap) -> Figure:
    """The same, on white."""
    figure = _clustered(regime_map, "0.2")
    plt.close(figure)
    return figure


def _clustered(regime_map: RegimeMap, ink: str) -> Figure:
    names = [shortened_name(expression) for expression in regime_map.expressions]
    tree, size = links(regime_map.cosines), len(names)
    with plt.ioff():
        grid = sns.clustermap(
            closeness(regime_map.cosines),
            row_linkage=tree,
            col_linkage=tree,
            vmin=-1,
            vmax=1,
            cmap=colors(),
            xticklabels=names,
            yticklabels=names,
            figsize=(3.5 + 0.16 * size, 3.5 + 0.16 * size),
            dendrogram_ratio=0.08,
            cbar_pos=None,
            rasterized=True,
            tree_kws={"colors": ink},
        )
    axis = grid.ax_heatmap
    axis.tick_params(labelsize=7.5, length=0, pad=2)
    axis.grid(visible=False)
    order = [regime_map.expressions[place] for place in grid.dendrogram_row.reordered_ind]
    for group in regime_map.groups:
        start = min(order.index(name) for name in group)
        if len(group) > 1:
            frame = Rectangle((start, start), len(group), len(group), fill=False, edgecolor=ink, linewidth=1.1)
            axis.add_patch(frame)
    return grid.figure


def plane_svg(regime_map: RegimeMap) -> str:
    """A point for each group; near points are gradients that are alike."""
    return svg(
        lambda axis: draw_plane(axis, regime_map, INK, SOFT), f"plane of gradients, {regime_map.regime.name}", 8.4, 8.0
    )


def draw_plane(axis: Axes, regime_map: RegimeMap, ink: str, soft: str) -> None:
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
        edgecolors=ink,
        linewidths=0.7,
        zorder=3,
    )
    rows = max(1, len(groups))
    for number, (group, place) in enumerate(zip(groups, places, strict=True), 1):
        axis.annotate(str(number), place, (4, 4), textcoords="offset points", fontsize=7.5, color=ink, zorder=4)
        more = f" and {len(group) - 1} more" if len(group) > 1 else ""
        height = 1 - (number - 0.5) / rows
        text = f"{number}  {shortened_name(group[0])}{more}"
        axis.text(1.03, height, text, transform=axis.transAxes, fontsize=7.5, color=ink, va="center")
    axis.set_xlabel("direction of the gradient, first axis (multidimensional scaling)", fontsize=8)
    axis.set_ylabel("second axis", fontsize=8)
    axis.tick_params(labelsize=7)
    axis.grid(color=soft, alpha=0.3)
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


def plane_figure(zoo_map: ZooMap, names: Sequence[str]) -> Figure:
    """The planes of some regimes, on white."""
    maps = [
        regime_map
        for regime_map in zoo_map.regimes
        if regime_map.regime.name in names and len(regime_map.groups) >= SMALLEST
    ]
    figure = Figure(figsize=(8, 7 * len(maps)), layout="constrained")
    for axis, regime_map in zip(figure.subplots(len(maps), 1, squeeze=False)[:, 0], maps, strict=True):
        draw_plane(axis, regime_map, "0.15", "0.6")
        count = f"{len(regime_map.expressions)} objectives, {len(regime_map.groups)} directions"
        axis.set_title(f"{IN_WORDS[regime_map.regime.name]}: {count}", loc="left", fontsize=11)
    figure.supxlabel(
        "A point is a direction; near points are gradients that are alike; larger: more objectives.", fontsize=8
    )
    return figure


def shortened_name(expression: str, longest: int = LONGEST) -> str:
    """As much of an expression as a label holds."""
    return expression if len(expression) <= longest else f"{expression[: longest - 1]}\u2026"
