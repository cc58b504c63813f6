"""Who may write into the folder of a run, and what a resumed run keeps."""

import logging
import shutil
from dataclasses import asdict
from typing import IO

from objectives import Objective, parse
from rlzoo.config import Config, deciding, flat, to_yaml
from rlzoo.config.commands import is_read
from rlzoo.config.facts import LENGTH, RUN_IDENTITY
from rlzoo.errors import UserError
from rlzoo.experiment.content import check_content, content_of, kept_content
from rlzoo.experiment.identity import Code, has_changed, keep_sources, read_objective
from rlzoo.experiment.machine import environment, our_version
from rlzoo.experiment.progress import checkpoints, step_of
from rlzoo.experiment.run_folder import STEP, TRAINED, RunFolder, evaluated_step, missing_steps
from rlzoo.files import (
    clear_leftovers,
    json_lines,
    locked,
    read_json_lines,
    refuse_links,
    write_json,
    write_json_lines,
    write_text,
)
from rlzoo.rollout import engine_class

LOCK = ".lock"
_logger = logging.getLogger(__name__)


def claim(folder: RunFolder, config: Config) -> IO[str]:
    """Makes the run folder, or takes it up again if the configuration says so and agrees with what is in it.

    No other process may claim it until the returned file is closed. Raises UserError if it cannot be had.
    """
    if folder.config.exists():  # any other folder with something in it is refused
        refuse_links(folder.path)
    for written in (folder.path, folder / "checkpoints", folder / "evaluation"):
        clear_leftovers(written)
    objective = parse(config.objective)
    code, content = Code.of(config, objective), content_of(config)
    if folder.holds_run:
        if not config.resume:
            _check_same_code(code, objective, folder)
            _check_means_the_same(f"objective={config.objective}", objective, folder)
            raise UserError(
                f"output={folder.path} holds a run already; resume=true goes on with it, another output= keeps both"
            )
        check_same(config, folder, code)
        if kept_content(folder) is None:
            message = "%s does not say which weights and data it began with, as rlzoo did not record that; now it does"
            _logger.warning(message, folder.path)
        _check_profile(config, folder)
        _tell_of_losses(folder)
        _warn_of_versions(folder, code)
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
        keep_sources(folder.source, config, objective)
        versions = [*dict.fromkeys([*_versions(folder), our_version()])]
        described = {"key": objective.key, **objective.describe(), "code": asdict(code), "rlzoo": versions}
        write_json(folder.objective, described)
        write_json(folder.content, content)
        write_json(folder / "environment.json", environment(*engine_class(config.rollout.engine).packages))
    except OSError as error:
        raise UserError(f"output={folder.path} cannot be written: {error.strerror}") from None
    return lock


def _versions(folder: RunFolder) -> tuple[str, ...]:
    """The versions of rlzoo that have made its steps so far."""
    return read_objective(folder.path).versions if folder.has_steps and folder.objective.exists() else ()


def _warn_of_versions(folder: RunFolder, code: Code) -> None:
    """Says where a run goes on with another version of rlzoo, or with code of which no digest can be compared."""
    before, now = _versions(folder), our_version()
    if before and before[-1] != now:
        _logger.warning(
            "the run in %s is of rlzoo %s and goes on with %s; its objective is the same, what else has changed "
            "between them is not checked",
            *(folder.path, before[-1], now),
        )
    if code.sources and read_objective(folder.path).code is None:
        _logger.warning(
            "%s does not say in a way that can be compared which code of %s its steps are of; from now on it does",
            *(folder.path, ", ".join(code.sources)),
        )


def _check_profile(config: Config, folder: RunFolder) -> None:
    """A step that is behind the run is not traced any more, unless it has been."""
    step, last = config.log.profile, folder.last_checkpoint()
    done = 0 if last is None else step_of(last)
    if not 0 < step <= done or step in folder.profiles():
        return
    left = f"name one of {done + 1} to {config.train.steps}, or " if done < config.train.steps else ""
    raise UserError(
        f"log.profile={step} has no effect: the run in {folder.path} has done step {done} and has no trace of step "
        f"{step}; {left}leave it out"
    )


def _tell_of_losses(folder: RunFolder) -> None:
    """Steps that are behind the run and have no line of metrics: something else than rlzoo cut the file."""
    last = folder.last_checkpoint()
    lost = missing_steps(read_json_lines(folder.metrics, TRAINED), 0 if last is None else step_of(last))
    if lost:
        _logger.warning("%s has lost %s: curves and means will be without", folder.metrics, lost)


def _holds_others(folder: RunFolder) -> bool:
    return folder.path.exists() and any(path.name != LOCK for path in folder.path.iterdir())


def check_same(config: Config, folder: RunFolder, code: Code | None = None) -> None:
    """Refuses settings, and code, that differ from those of the run in the folder and decide its results.

    `code` is what is there now, where that is known already. Before the first step those are free that the evaluation
    before it does not depend on.
    """
    if folder.has_steps:
        _check_same_objective(config, folder)
    done = len(read_json_lines(folder.metrics, STEP))
    if done > config.train.steps:
        raise UserError(f"train.steps={config.train.steps}, but the run in {folder.path} has {done} steps already")
    is_constant = config.train.schedule == "constant"
    kept = RUN_IDENTITY - {LENGTH} if is_constant else RUN_IDENTITY  # other schedules depend on where the run ends
    before, now = deciding(folder.read_config(), kept), deciding(config, kept)
    for name in sorted({*before, *now} - {"objective"}):
        if before.get(name) != now.get(name) and (folder.has_steps or is_read(name, "eval")):
            raise UserError(
                f"{name}={now.get(name)}, but the run in {folder.path} has {before.get(name)}; "
                f"a resumed run keeps its settings"
            )
    check_content(content_of(config), folder, flat(asdict(config)))
    objective = parse(config.objective)
    _check_same_code(code or Code.of(config, objective), objective, folder)


def _check_same_code(code: Code, objective: Objective, folder: RunFolder) -> None:
    """Before the first step that of the objective is free, as its settings are."""
    trained = read_objective(folder.path) if folder.objective.exists() else None
    if trained is None or trained.code is None:
        return
    is_begun = folder.has_steps and trained.key == objective.key
    change = code.changes(trained.code) if is_begun else code.changes_of_task(trained.code)
    if change:
        kept = f"; {folder.source} has what it was" if folder.source.is_dir() else ""
        raise UserError(
            f"{change} has changed since the run in {folder.path} was trained{kept}; a run keeps its code, another "
            f"output= starts afresh"
        )


def _check_same_objective(config: Config, folder: RunFolder) -> None:
    """However they are written, keys decide; and they do so where the run's words mean something else by now."""
    asked, objective, trained = f"objective={config.objective}", parse(config.objective), read_objective(folder.path)
    if trained.key == objective.key:
        return
    _check_means_the_same(asked, objective, folder)
    raise UserError(f"{asked}, but the run in {folder.path} has {trained.expression}; a resumed run keeps its settings")


def _check_means_the_same(asked: str, objective: Objective, folder: RunFolder) -> None:
    trained = read_objective(folder.path) if folder.objective.exists() else None
    if trained is not None and trained.key != objective.key and trained.meant_now == objective and folder.has_steps:
        change = has_changed(asked, objective.key, trained.key, f"the run in {folder.path}")
        raise UserError(f"{change}; a resumed run keeps its settings, another output= starts afresh")


def forget_after(folder: RunFolder, step: int) -> None:
    """Drops records of steps that come after the checkpoint that training goes on from: they will be made again."""
    for path in (folder.metrics, folder.timings, folder.responses):
        write_json_lines(path, (record for record in json_lines(path, STEP) if record["step"] <= step))
    for path in (folder / "evaluation").glob("step-*.jsonl"):
        if evaluated_step(path) > step:
            path.unlink()
    for traced, path in folder.profiles().items():
        if traced > step:
            shutil.rmtree(path)
    for hidden in (folder / "checkpoints").glob(".*"):  # what was damaged, and what earlier versions left
        shutil.rmtree(hidden, ignore_errors=True)
    for checkpoint in checkpoints(folder / "checkpoints"):
        if step_of(checkpoint) > step:  # a damaged one, which nothing goes on from
            checkpoint.rename(checkpoint.with_name(f".damaged-{checkpoint.name}"))


def forget_old_responses(folder: RunFolder, step: int, newest: int) -> None:
    """After every `newest` steps, drops the responses of those before; the same whenever a run was interrupted."""
    if newest and step % newest == 0 and step > newest:
        kept = (record for record in json_lines(folder.responses, STEP) if record["step"] > step - newest)
        write_json_lines(folder.responses, kept)
