"""Draws how far each recipe came: python -m benchmarks.zoo.draw"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from rlzoo.report.drawing import save_figure, themed

RESULTS = Path(__file__).parent / "results"


def draw() -> None:
    """The accuracy of the rollouts before and after, a row for each recipe of `training.md`, a dot for each seed."""
    lines = (RESULTS / "training.md").read_text(encoding="utf-8").splitlines()[2:]
    rows = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]
    places, after = np.arange(len(rows)), [float(row[2]) for row in rows]
    with themed():
        figure = Figure(figsize=(7, 1.2 + 0.19 * len(rows)), layout="constrained")
        axis = figure.subplots()
        axis.plot([float(row[1]) for row in rows], places, "o", color="0.6", markersize=5, label="before training")
        axis.plot(after, places, "o", color="#1f6fb4", markersize=6, label="after 30 steps, mean of three seeds")
        for place, row in zip(places, rows, strict=True):
            seeds = list(map(float, row[3].split()))
            axis.plot(seeds, [place] * len(seeds), ".", color="#1f6fb4", alpha=0.5, label="" if place else "one seed")
        axis.set_yticks(places, [row[0] for row in rows], fontsize=8)
        axis.set_ylim(len(rows) - 0.5, -0.5)
        axis.tick_params(axis="x", labelsize=9)
        axis.set_xlabel("accuracy of the training rollouts (%)", fontsize=9)
        axis.legend(fontsize=9, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, frameon=False)
    save_figure(figure, RESULTS / "training.png")


if __name__ == "__main__":
    draw()
