"""The learning curves of one run as a picture."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rlzoo.config import Config, read_decodings
from rlzoo.errors import UserError
from rlzoo.evaluation.evaluate import Evaluation, read_evaluations
from rlzoo.experiment.identity import trained_in
from rlzoo.experiment.run_folder import TRAINED, RunFolder
from rlzoo.files import file_written_atomically, read_json_lines
from rlzoo.report.smoothing import smoothed
from rlzoo.statistics.intervals import Estimate


def curves_of(folder: RunFolder) -> Figure:
    """Those of a run so far. Raises UserError if no step is done."""
    config, metrics = folder.read_config(), read_json_lines(folder.metrics, TRAINED)
    if not metrics:
        raise UserError(f"{folder.path} has no curves yet: no step is done")
    evaluations = read_evaluations(folder, read_decodings(config.evaluation.decodings)[0])
    return curves_figure(metrics, evaluations, trained_in(folder.path).shortest, config)


def curves_figure(
    metrics: Sequence[dict[str, Any]], evaluations: Mapping[int, Evaluation], objective: str, config: Config
) -> Figure:
    """Four panels: accuracy with the held-out evaluations and their intervals, entropy, length, gradient norm."""
    with themed(palette="colorblind"):
        figure = Figure(figsize=(11, 7), layout="constrained")
        axes = figure.subplots(2, 2, sharex=True)
        panels = [("accuracy", "accuracy (%)"), ("entropy", "entropy of the policy (nats)")]
        panels += [("length", "response length (tokens)"), ("gradient_norm", "gradient norm before clipping")]
        for axis, (name, title) in zip(axes.flat, panels, strict=True):
            _draw(axis, metrics, name, title)
        for axis in axes[-1]:
            axis.set_xlabel("step")
        _draw_evaluations(axes[0, 0], evaluations)
        figure.suptitle(f"{objective}   |   {config.model.name} on {config.task.name}, seed {config.seed}")
    return figure


@contextmanager
def themed(**options: Any) -> Iterator[None]:
    """The look of our figures, which a notebook's own do not take on."""
    with matplotlib.rc_context():
        sns.set_theme(style="whitegrid", context="notebook", color_codes=False, **options)
        yield


def save_figure(figure: Figure, path: Path) -> None:
    """Writes a PNG atomically."""
    with file_written_atomically(path) as file:
        figure.savefig(file, dpi=130, format="png")


def _draw(axis: Axes, metrics: Sequence[dict[str, Any]], name: str, title: str) -> None:
    steps = [line["step"] for line in metrics]
    values = [(100 if name == "accuracy" else 1) * line[name] for line in metrics]
    axis.plot(steps, values, color="C0", alpha=0.3, linewidth=1)
    axis.plot(steps, smoothed(values), color="C0", linewidth=2, label="training rollouts, smoothed")
    axis.set_title(title, loc="left", fontsize=11)


def draw_estimates(
    axis: Axes, places: Sequence[float], estimates: Sequence[Estimate], is_flat: bool = False, **look: Any
) -> None:
    """Means in % with their intervals over their places, or beside them where they are to lie flat."""
    means = [100 * estimate.mean for estimate in estimates]
    reach = [
        [100 * (estimate.mean - estimate.low) for estimate in estimates],
        [100 * (estimate.high - estimate.mean) for estimate in estimates],
    ]
    if is_flat:
        axis.errorbar(means, places, xerr=reach, **look)
    else:
        axis.errorbar(places, means, yerr=reach, **look)


def _draw_evaluations(axis: Axes, evaluations: Mapping[int, Evaluation]) -> None:
    estimates = [evaluation.accuracy for evaluation in evaluations.values()]
    label = "held out, 95 % interval"
    draw_estimates(axis, list(evaluations), estimates, fmt="o", color="C3", capsize=4, label=label)
    axis.set_ylim(0, 100)
    axis.legend(loc="lower right", fontsize=9)
