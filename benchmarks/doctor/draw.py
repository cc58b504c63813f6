"""Draws the curve of each detector: what it finds, and what it takes for a fault, by threshold.

python -m benchmarks.doctor.draw
"""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from benchmarks.doctor.design import MEASURED
from benchmarks.doctor.rates import curve
from benchmarks.doctor.runs import RESULTS, Measured, read
from rlzoo.doctor.detectors import DETECTORS, Detector

COLUMNS = 5


def draw(runs: list[Measured]) -> None:
    """One small picture for each detector, the thresholds that they have as lines."""
    rows = -(-len(DETECTORS) // COLUMNS)
    figure, axes = plt.subplots(rows, COLUMNS, figsize=(13, 2.4 * rows), sharey=True, layout="constrained")
    for detector, place in zip(DETECTORS, axes.flat, strict=False):
        _draw_one(detector, runs, place)
    for place in axes.flat[len(DETECTORS) :]:
        place.axis("off")
    axes.flat[0].legend(fontsize=7, loc="center left")
    figure.savefig(RESULTS / "curves.png", dpi=110)


def _draw_one(detector: Detector, runs: list[Measured], place: Axes) -> None:
    points = curve(detector, runs)
    thresholds = [point["threshold"] for point in points]
    place.step(thresholds, [point["found"] / max(1, point["faulty"]) for point in points], label="of faulty runs")
    place.step(thresholds, [point["alarms"] / max(1, point["healthy"]) for point in points], label="of healthy runs")
    place.axvline(detector.threshold, color="grey", linewidth=0.8, linestyle="--")
    place.set_xscale("symlog", linthresh=max(1e-6, abs(detector.threshold) / 10))
    side = "at most" if detector.below else "at least"
    place.set_title(f"{detector.name} {side} {detector.threshold:g}", fontsize=8)
    place.xaxis.get_major_locator().set_params(numticks=4)
    place.tick_params(labelsize=6)


if __name__ == "__main__":
    draw(read(MEASURED.name))
