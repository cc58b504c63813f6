"""The card of a trained model: what trained it, what came of it, and how to make it again."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCardData
from jinja2 import Environment, PackageLoader, StrictUndefined, UndefinedError

from rlzoo.config import Config, words_of
from rlzoo.config.decoding import Decoding, read_decodings
from rlzoo.config.facts import FOLDER, Decides
from rlzoo.errors import UserError, one_line
from rlzoo.evaluation.evaluate import Evaluation, read_evaluations
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import read_json_file, write_text
from rlzoo.records import reading
from rlzoo.report.formatting import percent
from rlzoo.report.published import published_config

CARD = "README.md"
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


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


def write_model_card(run: RunFolder, model: Path) -> None:
    """Writes the card of a run into the folder of its model."""
    write_text(model / CARD, model_card(run))


def model_card(run: RunFolder) -> str:
    """The text of the card, with metadata as the Hugging Face hub reads them, from what lies in a run's folder."""
    config = published_config(run)
    rows = [
        BeforeAndAfter(decoding, by_step[min(by_step)], by_step[max(by_step)])
        for decoding in read_decodings(config.evaluation.decodings)
        if (by_step := read_evaluations(run, decoding))
    ]
    environment = Environment(
        loader=PackageLoader("rlzoo.report"), undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True
    )
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
