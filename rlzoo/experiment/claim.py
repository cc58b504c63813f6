"""The folder of a run: which one it is, who may write into it, and what a resumed run keeps."""

import logging
import shutil
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from glob import escape, glob
from pathlib import Path
from string import Formatter
from typing import IO

from huggingface_hub import try_to_load_from_cache

from objectives import Objective, ObjectiveError, parse
from rlzoo.config import Config, ModelConfig, flat, to_yaml
from rlzoo.config.recorded import CONFIG
from rlzoo.config.schema import LENGTH, RUN_IDENTITY
from rlzoo.config.words import deciding, is_read
from rlzoo.errors import UserError
from rlzoo.experiment.identity import (
    Code,
    Recorded,
    digest,
    folder_name,
    has_changed,
    keep_sources,
    read_objective,
)
from rlzoo.experiment.machine import environment, our_version
from rlzoo.experiment.progress import checkpoints, step_of
from rlzoo.experiment.run_folder import STEP, TRAINED, RunFolder, evaluated_step, missing_steps
from rlzoo.files import (
    clear_leftovers,
    json_lines,
    locked,
    read_json_file,
    read_json_lines,
    slug,
    write_json,
    write_json_lines,
    write_text,
)
from rlzoo.model.pretrained import as_reference, as_teacher, checksum, locate
from rlzoo.ownership import keep_as_own
from rlzoo.records import reading
from rlzoo.rollout import engine_class
from rlzoo.tasks import OWN
from rlzoo.tasks.base import format_of

LOCK = ".lock"
NAMES = ("task", "objective", "seed")
_ANY = "\0"
"""Stands for any objective; no path has it."""
Content = Mapping[str, Mapping[str, str]]
"""Key -> file that it leads to, as it is called there -> checksum of the whole file."""
_OF_MODEL = (
    *("*.safetensors", "*.bin", "*.index.json", "config.json", "generation_config.json", "chat_template.*", "*.py"),
    *("tokenizer*", "special_tokens_map.json", "added_tokens.json", "vocab.*", "merges.txt"),
)
"""What decides what a model reads, calculates and ends with."""
COMMIT = "commit"
"""Stands for the files of a model on the hub, which a commit never changes."""
_logger = logging.getLogger(__name__)


def claim(folder: RunFolder, config: Config) -> IO[str]:
    """Makes the run folder, or takes it up again if the configuration says so and agrees with what is in it.

    No other process may claim it until the returned file is closed. Raises UserError if it cannot be had.
    """
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
        keep_as_own(folder.config, keep_sources(folder.source, config, objective))
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
    """Warns if a run resumes with another version of rlzoo, or with code whose digest cannot be compared."""
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
    """However they are written, keys decide; and they do so where the run's words mean something else now."""
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


# ---- which folder ----------------------------------------------------------------------------------------------------


def output_folder(config: Config, objective: Objective) -> Path:
    """The folder of this run, if one is there whose name differs from `output` in `{objective}` alone, or a new one.

    A new one has the name that was typed, and the key's digest behind it where that is the name of another objective's.
    Raises UserError for a name in braces that is none of ours.
    """
    names = _names(config.output)
    if "objective" not in names:
        return Path(_filled(config, ""))
    name = folder_name(config.objective, objective.key)
    typed = Path(_filled(config, name))
    pattern = escape(_filled(config, _ANY)).replace(_ANY, "*")
    paths = dict.fromkeys([typed, *map(Path, sorted(glob(pattern)))])
    runs = {path: trained for path in paths if (trained := _trained(path)) is not None}
    same = [path for path, trained in runs.items() if trained.key == objective.key]
    same = same or [path for path, trained in runs.items() if trained.meant_now == objective]  # which resuming refuses
    for path in same:
        if _agrees(path, config, names):
            return path
    is_taken = typed in runs and typed not in same
    return Path(_filled(config, f"{name}-{digest(objective.key)}")) if is_taken else typed


def _names(output: str) -> set[str]:
    """The names in braces."""
    try:
        fields = [field for field in Formatter().parse(output) if field[1] is not None]
    except ValueError as error:
        raise UserError(f"output={output}: {error}; a brace that is meant is written twice") from None
    for _, name, kind, conversion in fields:
        if kind or conversion:
            raise UserError(f"output={output}: write {{{name}}} without what follows the name in its braces")
    names = {str(name) for _, name, _, _ in fields}
    for name in sorted(names - {*NAMES}):
        raise UserError(f"output: {{{name}}} is not one of {', '.join(f'{{{allowed}}}' for allowed in NAMES)}")
    return names


def _filled(config: Config, objective: str) -> str:
    return config.output.format(task=slug(config.task.name), objective=objective, seed=config.seed)


def _trained(path: Path) -> Recorded | None:
    """The objective of the run in a folder; None if no run is there, or none that can be read."""
    try:
        return read_objective(path) if (path / CONFIG).exists() else None
    except (UserError, ObjectiveError, OSError):
        return None


def _agrees(path: Path, config: Config, names: set[str]) -> bool:
    """Whether the run has the task and the seed that are part of the folder's name."""
    try:
        trained = RunFolder(path).read_config()
    except UserError:
        return False
    is_task = "task" not in names or slug(trained.task.name) == slug(config.task.name)
    return is_task and ("seed" not in names or trained.seed == config.seed)


# ---- which weights and data ------------------------------------------------------------------------------------------


def content_of(config: Config) -> Content:
    """What is there now, each file read once by a process; data on the hub, and made by code, are not among it.

    Raises UserError for a model that is not there.
    """
    teacher, reference = as_teacher(config.model), as_reference(config.model)
    models = {"model.name": config.model, "model.teacher": teacher, "model.reference": reference}
    places = {key: _of_model(model) for key, model in models.items() if model is not None}
    data = {"task.name": config.task.name, "task.held_out": config.task.held_out}
    places |= {key: _of_data(Path(name).expanduser()) for key, name in data.items() if name and name not in OWN}
    return {key: files for key, files in places.items() if files}


def _of_model(config: ModelConfig) -> Mapping[str, str]:
    source = locate(config)
    folder = Path(source.path)
    if folder.is_dir():
        return _checksums(folder, {path for pattern in _OF_MODEL for path in folder.glob(pattern)})
    cached = try_to_load_from_cache(source.path, "config.json", revision=source.options["revision"])
    return {COMMIT: Path(cached).parent.name} if isinstance(cached, str) else {}


def _of_data(path: Path) -> Mapping[str, str]:
    if path.is_file():
        return _checksums(path.parent, [path])
    return _checksums(path, (file for file in path.rglob("*") if format_of(file))) if path.is_dir() else {}


def _checksums(folder: Path, paths: Iterable[Path]) -> Mapping[str, str]:
    files = sorted(path for path in paths if path.is_file())
    with ThreadPoolExecutor() as threads:
        return {
            str(path.relative_to(folder)): sum for path, sum in zip(files, threads.map(checksum, files), strict=True)
        }


def kept_content(folder: RunFolder) -> Content | None:
    """What a run began from; None where a version of rlzoo made it that did not record that. Raises UserError."""
    if not folder.content.exists():
        return None
    with reading(folder.content):
        saved = read_json_file(folder.content)
        return {str(key): {str(file): str(sum) for file, sum in files.items()} for key, files in saved.items()}


def check_content(now: Content, folder: RunFolder, values: Mapping[str, object]) -> None:
    """Refuses to go on with a run from other weights or other data than it began with.

    `values` are those of the keys. Before the first step those are free that the evaluation before it does not read.
    """
    before = kept_content(folder) or {}
    for key in {**before, **now}:
        there = now.get(key, {})
        changed = sorted(file for file, sum in before.get(key, {}).items() if there.get(file) != sum)
        added = sorted(there.keys() - before[key].keys()) if key in before else []
        if (changed or added) and (folder.has_steps or is_read(key, "eval")):
            what = ", ".join([*changed, *added])
            raise UserError(
                f"{key}={values.get(key)}: {what} {'is' if len(changed + added) == 1 else 'are'} not what the run in "
                f"{folder.path} began with; put back what it was, or begin afresh with another output="
            )
