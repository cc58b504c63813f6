"""The folder that `output` means. Two spellings of an objective are one run, so another may have named its folder."""

from glob import escape, glob
from pathlib import Path
from string import Formatter

from objectives import Objective, ObjectiveError
from rlzoo.config import Config
from rlzoo.config.recorded import CONFIG
from rlzoo.errors import UserError
from rlzoo.experiment.identity import Recorded, digest, folder_name, read_objective
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import slug

NAMES = ("task", "objective", "seed")
_ANY = "\0"
"""Stands for any objective; no path has it."""


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
