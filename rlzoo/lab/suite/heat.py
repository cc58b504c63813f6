"""Who does what where: objectives by experiments, as a table, a picture, and a profile of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rlzoo.lab.map.figures import colors
from rlzoo.lab.suite.contrasts import Contrasted
from rlzoo.lab.suite.experiment import BASE, TYPED
from rlzoo.lab.suite.suite import SuiteTable
from rlzoo.lab.suite.text import MARKS
from rlzoo.report.drawing import DOWN, INK, SOFT, UP, svg

FULL = 3.0
"""Standard deviations from which on a cell is as dark as can be, and a bar as long."""
SEVERAL = 2
"""Experiments from which on an objective has a profile."""
DENSE = 0.2
"""Share of objectives from which on an experiment is in the picture."""
LONGEST = 30


@dataclass(frozen=True)
class HeatCell:
    """One objective in one experiment."""

    contrasted: Contrasted
    better: float
    """The standardised effect, above 0 where the score moved to the better side."""


@dataclass(frozen=True)
class Heat:
    """Rows are objectives, columns experiments."""

    experiments: Sequence[str]
    rows: Mapping[str, Mapping[str, HeatCell]]

    @property
    def profiled(self) -> list[str]:
        """Those that were in several experiments."""
        return [name for name, cells in self.rows.items() if len(cells) >= SEVERAL]


def heat(suite: SuiteTable) -> Heat:
    """Objectives that were asked for, then the experiments' own arms that have their base's settings."""
    rows = dict[str, dict[str, HeatCell]]()
    for asked in (True, False):
        for judged, contrasts in zip(suite.experiments, suite.contrasts, strict=True):
            experiment = judged.results.experiment
            sign = 1 if experiment.higher_is_better else -1
            for label, beside in contrasts.items():
                arm = judged.results.arms[label].arm
                is_asked = label not in experiment.arms
                if is_asked is not asked or arm.settings != experiment.arms[BASE].settings:
                    continue
                name = label.removesuffix(TYPED) if is_asked else arm.objective.removesuffix(experiment.added)
                better = sign * (beside.standardised or 0.0)
                rows.setdefault(name, {}).setdefault(experiment.name, HeatCell(beside, better))
    return Heat([judged.results.experiment.name for judged in suite.experiments], rows)


def heat_figure(shown: Heat) -> Figure:
    """What is dense of the table as a picture, on white, an experiment a row; all of it if no objective was in several.

    The numbers are in the table.
    """
    names = shown.profiled or list(shown.rows)
    counts = {place: sum(place in shown.rows[name] for name in names) for place in shown.experiments}
    places = [place for place, count in counts.items() if count > DENSE * len(names)]
    names = [name for name in names if sum(place in shown.rows[name] for place in places) >= min(SEVERAL, len(places))]
    cells = [[shown.rows[name].get(place) for name in names] for place in places]
    figure = Figure(figsize=(1.8 + 0.22 * len(names), 2.1 + 0.3 * len(places)), layout="constrained")
    axis = figure.subplots()
    sns.heatmap(
        np.array([[_shade(cell) for cell in row] for row in cells], dtype=float),
        annot=np.array([[MARKS[cell.contrasted.standing] if cell else "" for cell in row] for row in cells]),
        fmt="",
        annot_kws={"fontsize": 7, "color": "0.1"},
        cmap=colors(),
        vmin=-1.6,
        vmax=1.6,
        cbar=False,
        xticklabels=[name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}\u2026" for name in names],
        yticklabels=[name.replace("_", " ") for name in places],
        linewidths=0.5,
        ax=axis,
    )
    axis.tick_params(labelsize=8, length=0)
    axis.tick_params(axis="x", rotation=90)
    axis.tick_params(axis="y", rotation=0)
    axis.grid(visible=False)
    plt.close(figure)
    return figure


def _shade(cell: HeatCell | None) -> float:
    return float("nan") if cell is None else max(-1.0, min(1.0, cell.better / FULL))


def profile_svg(name: str, cells: Mapping[str, HeatCell]) -> str:
    """A bar for each experiment, to the right where it is better than base; filled where it is told apart."""
    return svg(lambda axis: _draw_profile(axis, cells), f"profile {name}", 5.0, 0.75 + 0.24 * len(cells))


def _draw_profile(axis: Axes, cells: Mapping[str, HeatCell]) -> None:
    places = list(range(len(cells)))[::-1]
    for place, cell in zip(places, cells.values(), strict=True):
        color = UP if cell.better > 0 else DOWN
        length = max(-FULL, min(FULL, cell.better))
        is_sure = bool(cell.contrasted.compared.sign)
        axis.barh(place, length, color=color if is_sure else "none", edgecolor=color, linewidth=1.0, height=0.62)
        if abs(cell.better) > FULL:
            side = 1 if length > 0 else -1
            align = "left" if side > 0 else "right"
            axis.text(
                side * (FULL + 0.06), place, f"{cell.better:+.0f}", va="center", ha=align, color=INK, fontsize=7.5
            )
    axis.axvline(0, color=SOFT, linewidth=0.8)
    axis.set_xlim(-FULL - 0.6, FULL + 0.6)
    axis.set_ylim(-0.6, len(cells) - 0.4)
    axis.set_yticks(places, [name.replace("_", " ") for name in cells])
    axis.grid(visible=False, axis="y")
    axis.set_xlabel("worse | better than base (standard deviations of a run)")
