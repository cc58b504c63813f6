"""Who may write into the folder of a run, and what a resumed run keeps."""

import json
import logging
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from typing import IO

from objectives import parse
from rlzoo.config import EVALUATION_KEYS, Config, flat, to_yaml
from rlzoo.errors import UserError
from rlzoo.experiment.environment import environment
from rlzoo.experiment.identity import has_changed, trained_in
from rlzoo.experiment.progress import read_progress
from rlzoo.experiment.run_folder import RunFolder, evaluated_step, missing_steps
from rlzoo.files import locked, read_json_lines, write_json, write_json_lines, write_text
from rlzoo.tasks.outside import source_digests

FREE_TO_CHANGE = (
    "resume",
    "output",
    "checkpoint.",
    "log.",
    "evaluation.every",
    "train.steps",
    "train.sharding",
    "task.grader_",
    "rollout.server",
)
"""Keys that a resumed run may set differently: they do not touch the steps already done."""

LOCK = ".lock"
SOURCE_FILES = "source_files.json"
"""Digests of the files that hold the task and the rewards from outside, where a run has any."""
_logger = logging.getLogger(__name__)


def claim(folder: RunFolder, config: Config) -> IO[str]:
    """Makes the run folder, or takes it up again if the configuration says so and agrees with what is in it.

    No other process may claim it until the returned file is closed. Raises UserError if it cannot be had.
    """
    digests = source_digests(config.task)
    if folder.holds_run:
        if not config.resume:
            raise UserError(
                f"output={folder.path} holds a run already; resume=true goes on with it, another output= keeps both"
            )
        check_same(config, folder)
        _tell_of_losses(folder)
        _tell_of_other_code(folder, digests)
    elif folder.path.is_file():
        raise UserError(f"output={folder.path} is a file; choose another output=")
    elif not folder.config.exists() and _holds_others(folder):
        raise UserError(f"output={folder.path} is a folder with other things in it; choose another output=")
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
        lock = locked(folder / LOCK)
        if lock is None:
            raise UserError(f"output={folder.path} is being written by another process; wait for it, or stop it")
        write_text(folder.config, to_yaml(config))
        objective = parse(config.objective)
        write_json(folder.objective, {"key": objective.key, **objective.describe()})
        write_json(folder / "environment.json", environment())
        if digests:
            write_json(folder / SOURCE_FILES, digests)
    except OSError as error:
        raise UserError(f"output={folder.path} cannot be written: {error.strerror}") from None
    return lock


def _tell_of_losses(folder: RunFolder) -> None:
    """Steps that are behind the run and have no line of metrics: something else than rlzoo cut the file."""
    last = folder.last_checkpoint()
    lost = missing_steps(read_json_lines(folder.metrics), 0 if last is None else read_progress(last).step)
    if lost:
        _logger.warning("%s has lost %s: curves and means will be without", folder.metrics, lost)


def _tell_of_other_code(folder: RunFolder, digests: Mapping[str, str]) -> None:
    """Rewards, or a task, whose file has changed since the run last went on: their names are still the same."""
    path = folder / SOURCE_FILES
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for written, digest in digests.items():
        if before.get(written, digest) != digest:
            _logger.warning("the code of %s has changed: steps before and after it differ in their grades", written)


def _holds_others(folder: RunFolder) -> bool:
    return folder.path.exists() and any(path.name != LOCK for path in folder.path.iterdir())


def check_same(config: Config, folder: RunFolder) -> None:
    """Refuses settings that differ from those of the run in the folder, except those that are free to change.

    Before the first step those are free too that the evaluation before it does not depend on.
    """
    if folder.has_steps:
        _check_same_objective(config, folder)
    done = len(read_json_lines(folder.metrics))
    if done > config.train.steps:
        raise UserError(f"train.steps={config.train.steps}, but the run in {folder.path} has {done} steps already")
    before, now = flat(asdict(folder.read_config())), flat(asdict(config))
    fixed = () if config.train.schedule == "constant" else ("train.steps",)  # others depend on where the run ends
    for key in sorted(before.keys() | now.keys()):
        is_free = (key.startswith(FREE_TO_CHANGE) and key not in fixed) or not (
            folder.has_steps or key.startswith(EVALUATION_KEYS)
        )
        if before.get(key) != now.get(key) and not is_free and key != "objective":
            raise UserError(
                f"{key}={now.get(key)}, but the run in {folder.path} has {before.get(key)}; "
                f"a resumed run keeps its settings"
            )


def _check_same_objective(config: Config, folder: RunFolder) -> None:
    """However they are written, keys decide; and they do so where the run's words mean something else by now."""
    asked, objective, trained = f"objective={config.objective}", parse(config.objective), trained_in(folder.path)
    if trained.key == objective.key:
        return
    if trained.meant_now == objective:
        change = has_changed(asked, objective.key, trained.key, f"the run in {folder.path}")
        raise UserError(f"{change}; a resumed run keeps its settings, another output= starts afresh")
    raise UserError(f"{asked}, but the run in {folder.path} has {trained.expression}; a resumed run keeps its settings")


def forget_after(folder: RunFolder, step: int) -> None:
    """Drops records of steps that come after the checkpoint that training goes on from: they will be made again."""
    for path in (folder.metrics, folder.timings, folder.responses):
        records = read_json_lines(path)
        write_json_lines(path, [record for record in records if record["step"] <= step])
    for path in (folder / "evaluation").glob("step-*.jsonl"):
        if evaluated_step(path) > step:
            path.unlink()
    for partial in (folder / "checkpoints").glob(".*"):
        shutil.rmtree(partial)
