"""Draws the curve of each detector: what it finds, and what it takes for a fault, by threshold.

python -m benchmarks.doctor.draw
"""

import pandas
import seaborn as sns

from benchmarks.doctor.runs import RESULTS
from rlzoo.doctor.detectors import DETECTORS
from rlzoo.report.drawing import themed

LEAST = 3
"""Thresholds of a detector that is drawn: of fewer there is nothing to choose."""


def draw() -> None:
    """One small picture for each detector, its threshold as a line."""
    table = pandas.read_csv(RESULTS / "curves.csv").query("split == 'measured'")
    table = table.groupby("detector").filter(lambda of: len(of) >= LEAST and of.faulty.max() > 0)
    table["runs with the fault"] = 100 * table.found / table.faulty
    table["healthy runs"] = 100 * table.alarms / table.healthy
    lines = table.melt(["detector", "threshold"], ["runs with the fault", "healthy runs"], "of", "share")
    by_name = {detector.name: detector for detector in DETECTORS}
    with themed(rc={"font.size": 9}):
        look = {"kind": "line", "drawstyle": "steps-post", "palette": ["#1f6fb4", "#c2482d"], "linewidth": 2}
        facets = {"facet_kws": {"sharex": False}, "col_wrap": 3, "height": 1.9, "aspect": 1.35}
        grid = sns.relplot(lines, x="threshold", y="share", hue="of", col="detector", **look, **facets)
        for name, axis in grid.axes_dict.items():
            detector = by_name[name]
            side = "at most" if detector.below else "at least"
            axis.axvline(detector.threshold, color="0.3", linewidth=1, linestyle="--")
            axis.set_xscale("symlog", linthresh=max(1e-6, abs(detector.threshold) / 10))
            axis.set_xticks([detector.threshold], [f"{side} {detector.threshold:g}"])
            axis.set_xticks([], minor=True)
            axis.set_title(name.replace("_", " "), fontsize=9)
            axis.tick_params(labelsize=8)
        grid.set_axis_labels("threshold; dashed: the one in use", "found (%)", fontsize=8.5)
        sns.move_legend(
            grid,
            "lower center",
            bbox_to_anchor=(0.5, 1.0),
            ncols=2,
            title="share in which the detector shows, by threshold",
        )
        grid.figure.savefig(RESULTS / "curves.png", dpi=130, bbox_inches="tight")


if __name__ == "__main__":
    draw()
