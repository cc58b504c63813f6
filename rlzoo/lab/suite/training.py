"""Trains cells and scores them: each is an arm of an experiment on a seed, by the loop that trains everything else."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, as_completed
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from pebble import ProcessExpired, ProcessPool

from objectives import ObjectiveError
from rlzoo.config import Config, load_config
from rlzoo.config.words import key_and_value
from rlzoo.errors import UserError, one_line
from rlzoo.experiment.check import check
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import folder_written_atomically
from rlzoo.lab.keys import WarmupConfig
from rlzoo.lab.suite.cells import Cell, CellFile, CellResult
from rlzoo.lab.suite.experiment import Arm, Experiment, load_experiment
from rlzoo.lab.suite.measures import Trained
from rlzoo.lab.warmup import demonstrated_model
from rlzoo.model.accelerator import make_accelerator, one_thread
from rlzoo.model.pretrained import without_progress_bars
from rlzoo.records import NUMBERS
from rlzoo.rollout.sampler import GradedRollouts
from rlzoo.scripts import WithoutMain
from rlzoo.tasks.outside import described
from rlzoo.training.run import load_trainer
from rlzoo.training.step import Trainer

# ---- one cell --------------------------------------------------------------------------------------------------------


TOUCHED = re.compile(r"touched/[^/]+/(tokens|mass)")
"""What is kept of the metrics."""
DEMONSTRATIONS = 128
"""Of one update of a starting policy."""
MAX_REFILLS = 100
"""A cell has seconds to lose: one that samples dynamically ends only where next to no group is mixed. No part of what a
cell is, as it decides only whether there is a result."""


def make_start(experiment: Experiment, folder: Path) -> None:
    """Makes the starting policy of an experiment in a folder, once."""
    if folder.is_dir():
        return
    config = WarmupConfig(demonstrations_per_step=DEMONSTRATIONS, **asdict(experiment.start))
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
    if not NUMBERS.holds(scores):
        raise UserError(f"the measure of {experiment.name} gives {scores}, which are not {NUMBERS.name}")
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


# ---- all that are missing, several at a time -------------------------------------------------------------------------


@dataclass(frozen=True)
class Failure:
    """A cell that could not be trained."""

    cell: Cell
    message: str


class RunningView(Protocol):
    """Shows progress while cells are trained."""

    def training(self, done: int, total: int) -> AbstractContextManager[None]:
        """A context in which cells are trained: `total` in all, `done` of them before."""
        ...

    def starts(self, missing: int) -> None:
        """Shows that `missing` starting policies are made first."""
        ...

    def trained(self, cell: Cell, failure: Failure | None) -> None:
        """Shows that a cell is done, or has failed."""
        ...


def run_cells(cells: Sequence[Cell], file: CellFile, jobs: int, view: RunningView) -> list[Failure]:
    """Trains what is not in the file yet and appends it; returns those that failed. Raises UserError."""
    done = {record.identity for record in file.read()}
    missing = [cell for cell in cells if cell.identity not in done]
    starts = file.path.parent / "starts"
    failures = list[Failure]()
    lacking = {cell.start: (cell.written, starts / cell.start) for cell in missing}
    lacking = {name: start for name, start in lacking.items() if not start[1].is_dir()}
    with view.training(len(cells) - len(missing), len(cells)), _worker_pool(min(jobs, max(1, len(missing)))) as pool:
        view.starts(len(lacking))
        for _, made in _each(pool, _make_start, list(lacking.values())):
            if isinstance(made, str):
                raise UserError(made)
        for (cell, _), result in _each(pool, _train, [(cell, starts / cell.start) for cell in missing]):
            failure = Failure(cell, result) if isinstance(result, str) else None
            if failure:
                failures.append(failure)
            else:
                file.append(cell, result)
            view.trained(cell, failure)
    return failures


def _make_start(written: str, folder: Path) -> None:
    make_start(load_experiment(written), folder)


def _train(cell: Cell, start: Path) -> CellResult:
    return run_cell(load_experiment(cell.written), cell.arm, cell.seed, start)


@contextmanager
def _worker_pool(jobs: int) -> Iterator[ProcessPool | None]:
    """Processes of one thread each; None if there is one job, which is done in this process."""
    if jobs == 1:
        with one_thread():
            yield None
        return
    context = WithoutMain()
    context.set_forkserver_preload([__name__])  # imported once for all
    pool = ProcessPool(jobs, initializer=_begin, context=context)
    try:
        yield pool
    finally:
        pool.stop()
        pool.join()


def _each(
    pool: ProcessPool | None, function: Callable[..., Any], items: Sequence[tuple[Any, ...]]
) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Calls a function with every item; yields items with what it returns, a text if that is an error."""
    if pool is None:
        yield from ((item, _attempt(function, item)) for item in items)
        return
    waiting: dict[Future[Any], tuple[Any, ...]] = {pool.schedule(_attempt, (function, item)): item for item in items}
    for future in as_completed(waiting):
        try:
            yield waiting[future], future.result()
        except ProcessExpired as error:
            yield waiting[future], f"its process has ended ({one_line(error)})"


def _begin() -> None:
    torch.set_num_threads(1)


def _attempt(function: Callable[..., Any], item: tuple[Any, ...]) -> Any:
    """What the function gives, or in a line why it gives nothing."""
    try:
        return function(*item)
    except (UserError, ObjectiveError) as error:
        return str(error)
    except Exception as error:  # whatever an experiment from outside raises
        return described(error)
