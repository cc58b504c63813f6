"""A run of seconds, the microscope on it, and one whose every text is hostile."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from rlzoo.config import load_config
from rlzoo.config.command_keys import InspectConfig
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.inspecting.microscope import Microscope, inspect_run
from rlzoo.report.terminal import Terminal
from rlzoo.tasks.base import Problem
from rlzoo.training.run import train
from tests.report.test_page import HOSTILE

SMALL = (
    "rollout.prompts_per_step=4",
    "rollout.responses_per_prompt=4",
    "rollout.max_refills=50",
    "train.steps=2",
    "train.minibatches_per_step=2",
    "train.learning_rate=1e-3",
    "checkpoint.every=1",
    "checkpoint.keep=9",
    "evaluation.problems=4",
    "evaluation.samples=2",
    "task.problems=50",
    "log.responses=16",
)


def make_run(folder: Path, *words: str) -> RunFolder:
    """Trains two steps."""
    config = load_config([*SMALL, f"output={folder}", *words])
    return train(config, Terminal(Console(quiet=True)))


def make_scope(run: RunFolder, *words: str) -> Microscope:
    """Looks at it."""
    return inspect_run(str(run.path), load_config(words, InspectConfig))


@dataclass(frozen=True)
class HostileTokenizer:
    """Every token says something bad."""

    def piece(self, token: int) -> str:
        return HOSTILE

    def is_special(self, token: int) -> bool:
        return token == 0


def hostile(scope: Microscope) -> Microscope:
    """The same rollouts where everything that is text says something bad."""
    config: Any = scope.experiment.config
    config = replace(config, model=replace(config.model, name=HOSTILE), task=replace(config.task, name=HOSTILE))

    @dataclass(frozen=True)
    class Task:
        train = [Problem(HOSTILE, HOSTILE, HOSTILE)] * len(scope.experiment.task.train)

    tokenizer: Any = HostileTokenizer()
    experiment = replace(scope.experiment, config=config, task=Task(), tokenizer=tokenizer)  # type: ignore[arg-type]
    return replace(scope, experiment=experiment, folder=RunFolder(Path(HOSTILE)))
