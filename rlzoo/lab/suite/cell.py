"""One cell: an arm of an experiment, trained on a seed by the loop that trains everything else, and scored."""

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlzoo.config import Config, key_and_value, load_config
from rlzoo.errors import UserError
from rlzoo.experiment.check import check
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import folder_written_atomically
from rlzoo.lab.keys import WarmupConfig
from rlzoo.lab.suite.experiment import Arm, Experiment
from rlzoo.lab.suite.trained import Trained
from rlzoo.lab.warmup import demonstrated_model
from rlzoo.model.accelerator import make_accelerator
from rlzoo.model.pretrained import without_progress_bars
from rlzoo.records import BOUNDED
from rlzoo.rollout.sampler import GradedRollouts
from rlzoo.training.run import load_trainer
from rlzoo.training.step import Trainer

TOUCHED = re.compile(r"touched/[^/]+/(tokens|mass)")
"""What is kept of the metrics."""
DEMONSTRATIONS = 128
"""Of one update of a starting policy."""
MAX_REFILLS = 100
"""A cell has seconds to lose: one that samples dynamically ends only where next to no group is mixed. No part of what a
cell is, as it decides only whether there is a result."""


@dataclass(frozen=True)
class CellResult:
    """What a cell left."""

    scores: Mapping[str, float]
    touched: Mapping[str, float]
    """`touched/PART/tokens` and `mass` of the metrics, means over the steps: whether the parts acted at all."""
    seconds: float
    """Of the CPU."""


def make_start(experiment: Experiment, folder: Path) -> None:
    """Makes the starting policy of an experiment in a folder, once."""
    if folder.is_dir():
        return
    start = experiment.start
    config = WarmupConfig(
        demonstrations_per_step=DEMONSTRATIONS,
        slip_rate=start.slip_rate,
        clean_fraction=start.clean_fraction,
        steps=start.steps,
        hidden_size=start.hidden_size,
        intermediate_size=start.intermediate_size,
        layers=start.layers,
        learning_rate=start.learning_rate,
    )
    model, tokenizer, _ = demonstrated_model(experiment.task(), config)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder_written_atomically(folder) as unfinished, without_progress_bars():
        model.save_pretrained(unfinished)
        tokenizer.save_pretrained(unfinished)


def run_cell(experiment: Experiment, arm: Arm, seed: int, model: Path) -> CellResult:
    """Trains and scores; `model` is the folder of the starting policy. Raises UserError or ObjectiveError."""
    began = time.process_time()
    with _trainer(experiment, arm, seed, model) as trainer:
        metrics, rollouts = list[dict[str, Any]](), list[GradedRollouts]()
        while trainer.progress.step < trainer.config.train.steps:
            step, collected = trainer.step()
            metrics.append(step)
            rollouts.extend(collected.examples)
        measured = experiment.measure(Trained(trainer, metrics, rollouts))
    scores = {name: float(value) for name, value in measured.items()}
    if not BOUNDED.holds(scores):
        raise UserError(f"the measure of {experiment.name} gives {scores}, which are not {BOUNDED.name}")
    touched = {name for step in metrics for name in step if TOUCHED.fullmatch(name)}
    return CellResult(
        scores=scores,
        touched={name: sum(step.get(name, 0.0) for step in metrics) / len(metrics) for name in sorted(touched)},
        seconds=time.process_time() - began,
    )


@contextmanager
def _trainer(experiment: Experiment, arm: Arm, seed: int, model: Path) -> Iterator[Trainer]:
    task = experiment.task
    words = {
        "task.name": f"{task.__module__}:{task.__qualname__}",
        "model.name": str(model),
        "objective": arm.objective,
        "seed": seed,
        "output": str(model.parent / "no-run"),
        "checkpoint.every": 0,
        "rollout.max_refills": MAX_REFILLS,
        **experiment.keys(arm),
    }
    config: Config = load_config([key_and_value(key, value) for key, value in words.items()])
    checked = check(config)
    with load_trainer(checked, make_accelerator("float32"), RunFolder(Path(config.output))) as trainer:
        yield trainer
