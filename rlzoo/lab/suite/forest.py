"""What the claims are worth here, as a picture: each effect with its interval, in the direction that was published."""

from collections.abc import Callable

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rlzoo.lab.suite.claims import ClaimVerdict, JudgedClaim, JudgedExperiment
from rlzoo.lab.suite.contrasts import deviation
from rlzoo.lab.suite.suite import SuiteTable
from rlzoo.lab.suite.text import VERDICTS, contrast
from rlzoo.report.drawing import DOWN, SOFT, UP, svg

FULL = 6.0
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
        if not experiment.controls.troubles and judged.compared.difference
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
    axis.set_xlim(-FULL - 0.8, FULL + 0.8)
    axis.set_ylim(-0.7, len(rows) - 0.3)
    axis.set_yticks(range(len(rows))[::-1], [_label(experiment, judged) for experiment, judged in rows], fontsize=8)
    axis.grid(visible=False, axis="y")
    axis.tick_params(axis="x", labelsize=8)
    axis.set_xlabel("the contrary | as published (deviations of a run)", fontsize=8)
    for color, words in (
        (UP, VERDICTS[ClaimVerdict.HOLDS]),
        (DOWN, VERDICTS[ClaimVerdict.DOES_NOT_HOLD]),
        (SOFT, "open"),
    ):
        fill = "none" if color == SOFT else color_of(color)
        axis.plot([], [], "o", color=color_of(color), markerfacecolor=fill, label=words)
    axis.legend(loc="lower right", fontsize=8, frameon=False)


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
    ends = [max(-FULL, min(FULL, end)) for end in (low, high)]
    axis.plot(ends, (place, place), color=color, linewidth=1.4)
    axis.plot(max(-FULL, min(FULL, mean)), place, "o", color=color, markerfacecolor=color if is_sure else "none")
    if abs(mean) > FULL:
        align = "left" if mean > 0 else "right"
        axis.text(1.03 * FULL * (1 if mean > 0 else -1), place, f"{mean:+.0f}", va="center", ha=align, fontsize=7.5)


def _label(experiment: JudgedExperiment, judged: JudgedClaim) -> str:
    return f"{experiment.results.experiment.name.replace('_', ' ')}: {contrast(judged.claim)}"
