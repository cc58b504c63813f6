"""The pictures of the suite: the effect of each claim, and who does what where."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rlzoo.lab.map.figures import colors
from rlzoo.lab.suite.experiment import BASE, TYPED, Claim
from rlzoo.lab.suite.suite import SuiteTable
from rlzoo.lab.suite.verdicts import ClaimVerdict, Contrasted, JudgedClaim, JudgedExperiment, Standing, deviation
from rlzoo.report.drawing import label_color_bar, row_label

VERDICTS = {
    ClaimVerdict.HOLDS: "holds here",
    ClaimVerdict.DOES_NOT_HOLD: "does not hold here",
    ClaimVerdict.CANNOT_TELL: "cannot tell",
    ClaimVerdict.DOES_NOT_FIRE: "does not fire here",
    ClaimVerdict.VOID: "void",
}


def contrast(claim: Claim) -> str:
    """What a claim compares, with the direction that was published."""
    return f"{claim.arm} {'higher' if claim.higher else 'lower'} than {claim.against}"


# ---- claims ----------------------------------------------------------------------------------------------------------


LIMIT = 6.0
"""Standard deviations of a run at which the scale ends; what lies beyond is written."""
UP, DOWN, SOFT = "#1f6fb4", "#c2482d", "#8a929c"
COLORS = {ClaimVerdict.HOLDS: UP, ClaimVerdict.DOES_NOT_HOLD: DOWN}
"""Of decided claims, whose points are filled."""
LEGEND = {
    UP: VERDICTS[ClaimVerdict.HOLDS],
    DOWN: "does not hold here: contrary, or surely too small",
    SOFT: "open: more seeds",
}


def pictured_claims(suite: SuiteTable) -> list[tuple[JudgedExperiment, JudgedClaim]]:
    """Those that have an effect, in valid experiments."""
    return [
        (experiment, judged)
        for experiment, judged in suite.claims
        if not experiment.controls.failed and judged.compared.difference
    ]


def forest_figure(suite: SuiteTable) -> Figure:
    """A row for each claim of a valid experiment; right is as published, filled where that or the contrary is sure."""
    rows = pictured_claims(suite)[::-1]
    figure = Figure(figsize=(8.0, 1.0 + 0.26 * len(rows)), layout="constrained")
    axis = figure.subplots()
    for place, pair in enumerate(rows):
        _draw_claim(axis, place, *pair)
    axis.axvline(0, color=SOFT, linewidth=0.8)
    axis.set_xlim(-LIMIT - 1.2, LIMIT + 1.2)
    axis.set_ylim(-0.7, len(rows) - 0.3)
    axis.set_yticks(range(len(rows)), [_label(*pair) for pair in rows], fontsize=8)
    axis.grid(visible=False, axis="y")
    axis.tick_params(axis="x", labelsize=8)
    axis.set_xlabel(
        "\u2190 the contrary of what was published      as published \u2192\n"
        "effect, in standard deviations of one run; beyond 6 as a number",
        fontsize=8,
    )
    for color, words in LEGEND.items():
        axis.plot([], [], "o", color=color, markerfacecolor="none" if color == SOFT else color, label=words)
    axis.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, fontsize=8, frameon=False)
    return figure


def _draw_claim(axis: Axes, place: int, experiment: JudgedExperiment, judged: JudgedClaim) -> None:
    known, scale = judged.compared.difference, deviation(experiment.results)
    assert known is not None
    sign = 1 if judged.claim.higher else -1
    mean, low, high = (sign * value / scale if scale else 0.0 for value in (known.mean, known.low, known.high))
    color = COLORS.get(judged.verdict, SOFT)
    axis.plot(np.clip((low, high), -LIMIT, LIMIT), (place, place), color=color, linewidth=1.4)
    fill = color if judged.verdict in COLORS else "none"
    axis.plot(np.clip(mean, -LIMIT, LIMIT), place, "o", color=color, markerfacecolor=fill)
    if abs(mean) > LIMIT:
        align = "left" if mean > 0 else "right"
        axis.text(1.03 * LIMIT * np.sign(mean), place, f"{mean:+.0f}", va="center", ha=align, fontsize=8)


def _label(experiment: JudgedExperiment, judged: JudgedClaim) -> str:
    return f"{experiment.results.experiment.name.replace('_', ' ')}: {contrast(judged.claim)}"


# ---- objectives by experiments ---------------------------------------------------------------------------------------


HEAT_LIMIT = 3.0
"""Standard deviations from which on a cell is as dark as can be."""
SURE = {Standing.HIGHER: "\u25cf", Standing.LOWER: "\u25cf", Standing.SAME_RUN: "=", Standing.NOT_TOLD_APART: ""}
"""Signs of the picture, whose colors say which side is better."""
HEAT_LEGEND = (
    "\u25cf  surely better or worse than base     =  the same run as base     no sign: not decided\n"
    "white: no effect, or not measured; base is GRPO as each experiment has it"
)
SEVERAL = 2
"""Experiments from which on an objective is in the picture."""
DENSE = 0.2
"""Share of objectives from which on an experiment is in the picture."""


@dataclass(frozen=True)
class HeatCell:
    """One objective in one experiment."""

    contrasted: Contrasted
    better: float
    """The standardised effect, above 0 where the score moved to the better side."""


Heat = Mapping[str, Mapping[str, HeatCell]]
"""Objective -> experiment -> cell."""


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
    return rows


def heat_figure(shown: Heat) -> Figure:
    """What is dense of the table as a picture, an objective a row; all of it if no objective was in several."""
    names = [name for name, cells in shown.items() if len(cells) >= SEVERAL] or list(shown)
    experiments = dict.fromkeys(place for name in names for place in shown[name])
    counts = {place: sum(place in shown[name] for name in names) for place in experiments}
    places = [place for place, count in counts.items() if count > DENSE * len(names)]
    names = [name for name in names if sum(place in shown[name] for place in places) >= min(SEVERAL, len(places))]
    cells = [[shown[name].get(place) for place in places] for name in names]
    figure = Figure(figsize=(max(6.0, 2.5 + 0.8 * len(places)), 2.0 + 0.17 * len(names)), layout="constrained")
    axis = figure.subplots()
    sns.heatmap(
        np.array([[_shade(cell) for cell in row] for row in cells], dtype=float),
        annot=np.array([[SURE[cell.contrasted.standing] if cell else "" for cell in row] for row in cells]),
        fmt="",
        annot_kws={"fontsize": 8, "color": "0.1"},
        cmap=colors(),
        vmin=-HEAT_LIMIT,
        vmax=HEAT_LIMIT,
        cbar_kws={"location": "top", "shrink": 0.7, "aspect": 40, "pad": 0.01},
        xticklabels=[name.replace("_", "\n") for name in places],
        yticklabels=[row_label(name) for name in names],
        linewidths=0.5,
        ax=axis,
    )
    label_color_bar(axis, "worse than base  \u2190  standard deviations of one run  \u2192  better than base")
    axis.tick_params(labelsize=8, length=0)
    axis.tick_params(axis="y", rotation=0)
    figure.supxlabel(HEAT_LEGEND, x=0.02, ha="left", fontsize=8.5)
    axis.grid(visible=False)
    return figure


def _shade(cell: HeatCell | None) -> float:
    return float("nan") if cell is None else max(-HEAT_LIMIT, min(HEAT_LIMIT, cell.better))
