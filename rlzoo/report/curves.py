"""The learning curves of one run as a picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rlzoo.evaluation.evaluate import Evaluation
from rlzoo.files import file_written_atomically
from rlzoo.report.smoothing import smoothed
from rlzoo.training.run import Outcome


def draw_curves(outcome: Outcome) -> None:
    """Four panels: accuracy with the held-out evaluations and their intervals, entropy, length, gradient norm."""
    sns.set_theme(style="whitegrid", context="notebook", palette="colorblind")
    figure, axes = plt.subplots(2, 2, figsize=(11, 7), sharex=True, layout="constrained")
    panels = [("accuracy", "accuracy"), ("entropy", "entropy of the policy (nats)")]
    panels += [("length", "response length (tokens)"), ("gradient_norm", "gradient norm before clipping")]
    for axis, (name, title) in zip(axes.flat, panels, strict=True):
        _draw(axis, outcome.metrics, name, title)
    for axis in axes[-1]:
        axis.set_xlabel("step")
    _draw_evaluations(axes[0, 0], next(iter(outcome.evaluations.values())))
    objective, config = outcome.experiment.objective, outcome.experiment.config
    figure.suptitle(f"{objective}   |   {config.model.name} on {config.task.name}, seed {config.seed}")
    save_figure(figure, outcome.folder.curves)


def save_figure(figure: Figure, path: Path) -> None:
    """Writes a PNG atomically and closes the figure."""
    with file_written_atomically(path) as file:
        figure.savefig(file, dpi=130, format="png")
    plt.close(figure)


def _draw(axis: Axes, metrics: Sequence[dict[str, Any]], name: str, title: str) -> None:
    steps = [line["step"] for line in metrics]
    values = [line[name] for line in metrics]
    axis.plot(steps, values, color="C0", alpha=0.3, linewidth=1)
    axis.plot(steps, smoothed(values), color="C0", linewidth=2, label="training rollouts, smoothed")
    axis.set_title(title, loc="left", fontsize=11)


def _draw_evaluations(axis: Axes, evaluations: Mapping[int, Evaluation]) -> None:
    estimates = [evaluation.accuracy for evaluation in evaluations.values()]
    means = [estimate.mean for estimate in estimates]
    below = [estimate.mean - estimate.low for estimate in estimates]
    above = [estimate.high - estimate.mean for estimate in estimates]
    axis.errorbar(
        list(evaluations), means, yerr=[below, above], fmt="o", color="C3", capsize=4, label="held out, 95 % interval"
    )
    axis.set_ylim(0, 1)
    axis.legend(loc="lower right", fontsize=9)
