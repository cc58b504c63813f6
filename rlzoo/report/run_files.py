"""What a finished run is shown by: its model's card, its curves, and its configuration as others may see it."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCardData
from jinja2 import Environment, PackageLoader, StrictUndefined, UndefinedError
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import TypeAdapter

from rlzoo.config import Config
from rlzoo.config.decoding import Decoding
from rlzoo.config.reading import read_recorded
from rlzoo.config.schema import FOLDER, Decides
from rlzoo.config.words import words_of
from rlzoo.errors import UserError, one_line
from rlzoo.evaluation.evaluate import Evaluation, Evaluations, all_evaluations
from rlzoo.experiment.identity import read_objective
from rlzoo.experiment.run_folder import TRAINED, RunFolder
from rlzoo.files import read_json_file, read_json_lines, write_text
from rlzoo.records import reading
from rlzoo.report.drawing import save_figure, smoothed, themed
from rlzoo.report.formatting import percent
from rlzoo.report.table import code, in_markdown, in_one_line

CARD = "README.md"
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_LOCAL = re.compile(r"[/~.\\]|\w:\\")
"""How the path of a file on this machine begins."""


def write_reports(run: RunFolder, evaluations: Evaluations) -> None:
    """Writes the card beside the model of a run, and its curves."""
    model = run.last_checkpoint()
    if model is not None:
        write_text(model / CARD, model_card(run, evaluations))
    save_figure(curves_of(run, evaluations), run.curves)


# ---- the model's card ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BeforeAndAfter:
    """The held-out evaluations with one decoding, before and after training."""

    decoding: Decoding
    first: Evaluation
    last: Evaluation

    @property
    def cells(self) -> tuple[str, ...]:
        """As the card's table has them."""
        sampled = f"{len(self.last.records) // self.last.samples} x {self.last.samples}"
        return str(self.decoding), sampled, percent(self.first.accuracy), percent(self.last.accuracy)


def model_card(run: RunFolder, evaluations: Evaluations | None = None) -> str:
    """The text of the card, with metadata as the Hugging Face hub reads them, from what lies in a run's folder.

    Its evaluations are read if they are not given.
    """
    config = published_config(run)
    rows = [
        BeforeAndAfter(decoding, by_step[min(by_step)], by_step[max(by_step)])
        for decoding, by_step in (evaluations or all_evaluations(run, config)).items()
        if by_step
    ]
    environment = Environment(
        loader=PackageLoader("rlzoo.report"), undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True
    )
    filters = {"text": in_markdown, "code": code, "line": in_one_line}  # what was recorded is text, and no markup
    environment.filters |= {name: partial(_written, shown) for name, shown in filters.items()}
    values = {
        "metadata": _metadata(config, run.path.name, rows).to_yaml(),
        "config": config,
        "objective": _read(run.objective),
        "environment": {name: value for name, value in _read(run / "environment.json").items() if value},
        "command": shlex.join(["rlzoo", "train", *words_of(config, frozenset(Decides) - {FOLDER})]),
        "rows": rows,
    }
    try:
        return environment.get_template("model_card.md").render(values)
    except UndefinedError as error:
        raise UserError(f"{run.objective} is not readable: {one_line(error)}; put back a copy") from None


def _written(shown: Callable[[str], str], value: object) -> str:
    return shown(str(value))


def _metadata(config: Config, name: str, rows: list[BeforeAndAfter]) -> ModelCardData:
    results = [
        EvalResult(
            task_type="text-generation",
            dataset_type=config.task.name,
            dataset_name=config.task.name,
            metric_type="accuracy",
            metric_name=f"avg@{row.last.samples}, {row.decoding}",
            metric_value=round(row.last.accuracy.mean, 4),
        )
        for row in rows
    ]
    return ModelCardData(
        library_name="transformers",
        pipeline_tag="text-generation",
        tags=["rlzoo", "reinforcement-learning", "rlvr"],
        base_model=config.model.name if _is_on_the_hub(config.model.name) else None,
        model_name=name if results else None,
        eval_results=results or None,
    )


def _is_on_the_hub(name: str) -> bool:
    return bool(_HUB_NAME.fullmatch(name)) and not Path(name).exists()


def _read(file: Path) -> dict[str, Any]:
    if not file.exists():
        return {}
    with reading(file):
        return dict(read_json_file(file))


# ---- the configuration -----------------------------------------------------------------------------------------------


def published_config(run: RunFolder) -> Config:
    """The configuration of a run, with the last part alone of what is a path on this machine."""
    recorded = read_recorded(run.config)
    values = _without_paths({**asdict(recorded), "output": run.path.name})
    values["evaluation"]["decodings"] = recorded.evaluation.decodings  # `.7/0.9` would look like a path
    return TypeAdapter(Config).validate_python(values)


def _without_paths(value: Any) -> Any:
    """A text is a path if it begins as one, or if such a file is here."""
    if isinstance(value, dict):
        return {key: _without_paths(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_paths(inner) for inner in value]
    if isinstance(value, str) and re.search(r"[/\\]", value) and (_LOCAL.match(value) or _exists(value)):
        return re.split(r"[/\\]", value.rstrip("/\\"))[-1]
    return value


def _exists(value: str) -> bool:
    try:
        return Path(value).exists()
    except (OSError, ValueError):  # a long text
        return False


# ---- curves ----------------------------------------------------------------------------------------------------------


def curves_of(folder: RunFolder, evaluations: Evaluations | None = None) -> Figure:
    """Those of a run so far, whose evaluations are read if they are not given. Raises UserError if no step is done."""
    config, metrics = folder.read_config(), read_json_lines(folder.metrics, TRAINED)
    if not metrics:
        raise UserError(f"{folder.path} has no curves yet: no step is done")
    by_step = next(iter((evaluations or all_evaluations(folder, config)).values()))
    return curves_figure(metrics, by_step, read_objective(folder.path).shortest, config)


def curves_figure(
    metrics: Sequence[dict[str, Any]], evaluations: Mapping[int, Evaluation], objective: str, config: Config
) -> Figure:
    """Four panels: accuracy with the held-out evaluations and their intervals, entropy, length, gradient norm."""
    with themed(palette="colorblind", rc={"text.parse_math": False}):
        figure = Figure(figsize=(9, 6), layout="constrained")
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


def _draw(axis: Axes, metrics: Sequence[dict[str, Any]], name: str, title: str) -> None:
    steps = [line["step"] for line in metrics]
    values = [(100 if name == "accuracy" else 1) * line[name] for line in metrics]
    axis.plot(steps, values, color="C0", alpha=0.3, linewidth=1)
    axis.plot(steps, smoothed(values), color="C0", linewidth=2, label="training rollouts, smoothed")
    axis.set_title(title, loc="left", fontsize=11)


def _draw_evaluations(axis: Axes, evaluations: Mapping[int, Evaluation]) -> None:
    estimates = [evaluation.accuracy for evaluation in evaluations.values()]
    means = [100 * estimate.mean for estimate in estimates]
    reach = [[100 * (it.mean - it.low) for it in estimates], [100 * (it.high - it.mean) for it in estimates]]
    label = "held out, 95 % interval"
    axis.errorbar(list(evaluations), means, yerr=reach, fmt="o", color="C3", capsize=4, label=label)
    axis.set_ylim(0, 100)
    axis.legend(loc="lower right", fontsize=9)
