"""The pictures of the suite: the effect of each claim, and who does what where."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rlzoo.lab.map.figures import colors
from rlzoo.lab.suite.experiment import BASE, TYPED, Claim
from rlzoo.lab.suite.suite import SuiteTable
from rlzoo.lab.suite.verdicts import ClaimVerdict, Contrasted, JudgedClaim, JudgedExperiment, Standing, deviation
from rlzoo.report.drawing import DOWN, SOFT, UP, label_color_bar, svg

VERDICTS = {
    ClaimVerdict.HOLDS: "holds here",
    ClaimVerdict.DOES_NOT_HOLD: "does not hold here",
    ClaimVerdict.CANNOT_TELL: "cannot tell",
    ClaimVerdict.DOES_NOT_FIRE: "does not fire here",
    ClaimVerdict.VOID: "void",
}
MARKS = {Standing.HIGHER: "\u25b2", Standing.LOWER: "\u25bc", Standing.SAME_RUN: "=", Standing.NOT_TOLD_APART: ""}
"""Higher or lower than base for sure; the same run."""


def contrast(claim: Claim) -> str:
    """What a claim compares, with the direction that was published."""
    return f"{claim.arm} {'higher' if claim.higher else 'lower'} than {claim.against}"


# ---- claims ----------------------------------------------------------------------------------------------------------


LIMIT = 6.0
"""Standard deviations of a run at which the scale ends; what lies beyond is written."""
COLORS = {
    ClaimVerdict.HOLDS: UP,
    ClaimVerdict.DOES_NOT_HOLD: DOWN,
    ClaimVerdict.CANNOT_TELL: SOFT,
    ClaimVerdict.DOES_NOT_FIRE: SOFT,
}
WIDTH, MARGIN, ROW_HEIGHT = 8.6, 1.0, 0.26
"""Inches."""
DRAWN = {UP: "#1f6fb4", DOWN: "#c2482d", SOFT: "#8a929c"}
"""On white."""


def pictured_claims(suite: SuiteTable) -> list[tuple[JudgedExperiment, JudgedClaim]]:
    """Those that have an effect, in valid experiments."""
    return [
        (experiment, judged)
        for experiment, judged in suite.claims
        if not experiment.controls.failed and judged.compared.difference
    ]


def forest_figure(suite: SuiteTable) -> Figure:
    """The picture on white; a row for each claim of a valid experiment."""
    figure = Figure(figsize=(WIDTH, _height(suite)), layout="constrained")
    draw_forest(figure.subplots(), suite, lambda color: DRAWN[color])
    plt.close(figure)
    return figure


def forest_svg(suite: SuiteTable) -> str:
    """The picture in the colours of the page that it stands on; empty where no valid experiment has an effect."""
    if not pictured_claims(suite):
        return ""
    return svg(lambda axis: draw_forest(axis, suite, str), "claims", WIDTH, _height(suite))


def _height(suite: SuiteTable) -> float:
    return MARGIN + ROW_HEIGHT * len(pictured_claims(suite))


def draw_forest(axis: Axes, suite: SuiteTable, color_of: Callable[[str], str]) -> None:
    """Right is as published; filled where that or the contrary is sure."""
    rows = pictured_claims(suite)
    for place, (experiment, judged) in zip(range(len(rows))[::-1], rows, strict=True):
        _draw_claim(axis, place, experiment, judged, color_of)
    axis.axvline(0, color=color_of(SOFT), linewidth=0.8)
    axis.set_xlim(-LIMIT - 1.2, LIMIT + 1.2)
    axis.set_ylim(-0.7, len(rows) - 0.3)
    axis.set_yticks(range(len(rows))[::-1], [_label(experiment, judged) for experiment, judged in rows], fontsize=8)
    axis.grid(visible=False, axis="y")
    axis.tick_params(axis="x", labelsize=8)
    axis.set_xlabel(
        "\u2190 the contrary of what was published      as published \u2192\n"
        "effect, in standard deviations of one run; beyond 6 as a number",
        fontsize=8,
    )
    for color, words in (
        (UP, VERDICTS[ClaimVerdict.HOLDS]),
        (DOWN, f"{VERDICTS[ClaimVerdict.DOES_NOT_HOLD]}: contrary, or surely too small"),
        (SOFT, "open: more seeds"),
    ):
        fill = "none" if color == SOFT else color_of(color)
        axis.plot([], [], "o", color=color_of(color), markerfacecolor=fill, label=words)
    axis.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, fontsize=8, frameon=False)


def _draw_claim(
    axis: Axes, place: int, experiment: JudgedExperiment, judged: JudgedClaim, color_of: Callable[[str], str]
) -> None:
    known, scale = judged.compared.difference, deviation(experiment.results)
    assert known is not None
    sign = 1 if judged.claim.higher else -1
    mean, low, high = (sign * value / scale if scale else 0.0 for value in (known.mean, known.low, known.high))
    color, is_sure = (
        color_of(COLORS[judged.verdict]),
        judged.verdict in (ClaimVerdict.HOLDS, ClaimVerdict.DOES_NOT_HOLD),
    )
    ends = [max(-LIMIT, min(LIMIT, end)) for end in (low, high)]
    axis.plot(ends, (place, place), color=color, linewidth=1.4)
    axis.plot(max(-LIMIT, min(LIMIT, mean)), place, "o", color=color, markerfacecolor=color if is_sure else "none")
    if abs(mean) > LIMIT:
        align = "left" if mean > 0 else "right"
        axis.text(1.03 * LIMIT * (1 if mean > 0 else -1), place, f"{mean:+.0f}", va="center", ha=align, fontsize=7.5)


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
    """What is dense of the table as a picture, on white, an objective a row; all of it if no objective was in several.

    The numbers are in the table.
    """
    names = [name for name, cells in shown.rows.items() if len(cells) >= SEVERAL] or list(shown.rows)
    counts = {place: sum(place in shown.rows[name] for name in names) for place in shown.experiments}
    places = [place for place, count in counts.items() if count > DENSE * len(names)]
    names = [name for name in names if sum(place in shown.rows[name] for place in places) >= min(SEVERAL, len(places))]
    cells = [[shown.rows[name].get(place) for place in places] for name in names]
    figure = Figure(figsize=(max(6.0, 2.5 + 0.8 * len(places)), 2.0 + 0.17 * len(names)), layout="constrained")
    axis = figure.subplots()
    sns.heatmap(
        np.array([[_shade(cell) for cell in row] for row in cells], dtype=float),
        annot=np.array([[SURE[cell.contrasted.standing] if cell else "" for cell in row] for row in cells]),
        fmt="",
        annot_kws={"fontsize": 7, "color": "0.1"},
        cmap=colors(),
        vmin=-HEAT_LIMIT,
        vmax=HEAT_LIMIT,
        cbar_kws={"location": "top", "shrink": 0.7, "aspect": 40, "pad": 0.01},
        xticklabels=[name.replace("_", "\n") for name in places],
        yticklabels=[name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}\u2026" for name in names],
        linewidths=0.5,
        ax=axis,
    )
    label_color_bar(axis, "worse than base  \u2190  standard deviations of one run  \u2192  better than base")
    axis.tick_params(labelsize=8, length=0)
    axis.tick_params(axis="y", rotation=0)
    figure.supxlabel(HEAT_LEGEND, x=0.02, ha="left", fontsize=8.5)
    axis.grid(visible=False)
    plt.close(figure)
    return figure


def _shade(cell: HeatCell | None) -> float:
    return float("nan") if cell is None else max(-HEAT_LIMIT, min(HEAT_LIMIT, cell.better))
