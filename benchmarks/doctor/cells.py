"""Short runs with and without a fault, on the tasks of the behaviour suite: 11,000 parameters, seconds each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.doctor.faults import Fault
from benchmarks.doctor.observing import observing
from objectives import ObjectiveError, parse
from rlzoo.config import Config, load_config
from rlzoo.config.words import key_and_value
from rlzoo.doctor.indicators import Table
from rlzoo.doctor.readers import run_records, table_of
from rlzoo.experiment.check import check
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.lab.suite.experiment import load_experiment
from rlzoo.lab.suite.training import make_start
from rlzoo.model.accelerator import make_accelerator
from rlzoo.training.run import load_trainer
from rlzoo.training.step import Trainer

STEPS = 20
KEPT = 8
"""Responses of each step whose text is looked at, as many as a run keeps."""


@dataclass(frozen=True)
class Base:
    """A healthy setting: a task, its starting policy and the keys of a run."""

    name: str
    experiment: str
    """Of the suite; empty for a shipped model, whose task the keys name."""
    settings: Mapping[str, Any] = field(default_factory=dict)

    def keys(self, starts: Path) -> dict[str, Any]:
        """What is typed for it; its starting policy is made if it is not there."""
        if not self.experiment:
            return dict(self.settings)
        experiment = load_experiment(self.experiment)
        start = starts / self.experiment
        make_start(experiment, start)
        task = f"{experiment.task.__module__}:{experiment.task.__qualname__}"
        keys = {**experiment.keys(experiment.arms["base"]), **self.settings}
        return {"model.name": str(start), "task.name": task, **keys}


@dataclass(frozen=True)
class Cell:
    """One run."""

    base: Base
    objective: str
    seed: int
    fault: Fault | None
    severity: float = 1.0
    """Of the fault, in (0, 1]."""
    steps: int = STEPS

    @property
    def key(self) -> tuple[str, str, int, str]:
        """By which it is known."""
        return self.base.name, self.objective, self.seed, self.fault.name if self.fault else ""


def run_cell(cell: Cell, starts: Path) -> Table:
    """Trains it and gives its table, as `rlzoo doctor` reads it from its folder, and columns of others' logs."""
    with observing(), load_trainer(*_prepared(cell, starts)) as trainer:
        for tamper in cell.fault.tampers if cell.fault else ():
            tamper(trainer, cell.severity)
        return table_of(_trained(trainer))


def with_fault(recipe: str, fault: Fault | None) -> str:
    """The objective of a run; where a recipe has no room for the fault's parts, GRPO without its divergence has."""
    added = fault.added if fault else ""
    try:
        parse(recipe + added)
    except ObjectiveError:
        return f"grpo-kl{added}"
    return recipe + added


def _prepared(cell: Cell, starts: Path) -> tuple[Any, Any, RunFolder]:
    fault = cell.fault
    keys = {**cell.base.keys(starts), "train.steps": cell.steps, **(fault.settings if fault else {})}
    words = {
        **keys,
        "objective": with_fault(cell.objective, fault),
        "seed": cell.seed,
        "output": str(starts / "no-run"),
        "checkpoint.every": 0,
    }
    config: Config = load_config([key_and_value(key, value) for key, value in words.items()])
    return check(config), make_accelerator("float32"), RunFolder(Path(config.output))


def _trained(trainer: Trainer) -> list[dict[str, Any]]:
    lines, responses = list[dict[str, Any]](), list[dict[str, Any]]()
    rollout = trainer.config.rollout
    while trainer.progress.step < trainer.config.train.steps:
        metrics, collected = trainer.step()
        lines.append(metrics)
        texts = collected.examples[0].texts[:KEPT]
        responses += [{"step": metrics["step"], "response": text} for text in texts]
    return list(
        run_records(lines, responses, (rollout.prompts_per_step, rollout.responses_per_prompt), str(trainer.objective))
    )
