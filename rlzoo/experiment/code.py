"""Which code a run is made with, beside its objective's key: of what is from outside the source, of ours the meaning.

Only names that a person typed or trusts are looked up here. What a folder has recorded is compared, never imported.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from objectives import Objective, module_name
from rlzoo.config import Config, TaskConfig, flat
from rlzoo.config.outside import is_outside
from rlzoo.config.recorded import values_of_code
from rlzoo.config.sections import VERIFIERS
from rlzoo.experiment.meaning import meaning
from rlzoo.files import folder_written_atomically
from rlzoo.source import Definition, code_digest, digest, is_ours, labelled, used_source
from rlzoo.tasks import written_outside
from rlzoo.tasks.outside import definition, definition_in
from rlzoo.tasks.verifiers import loader

Sources = Mapping[str, Mapping[str, str]]
"""Name from outside -> file, as it is called from the folder of its module -> digest of what the name uses of it."""


@dataclass(frozen=True)
class Code:
    """What two runs of one key share if their code was the same."""

    parts: Sources
    """Of those from outside."""
    task: Sources
    """Of the task, the rewards and the engine from outside: what decides an evaluation as well."""
    meaning: str
    """Of the objective; see `meaning`."""

    @classmethod
    def of(cls, config: Config, objective: Objective) -> "Code":
        """The code that is there now. Raises UserError if a file was edited since this process imported it."""
        return cls(dict(part_sources(objective)), task_sources(config.task, config.rollout.engine), meaning(objective))

    @classmethod
    def read(cls, saved: Mapping[str, Any] | None) -> "Code | None":
        """From JSON of what `asdict` made of it; None if nothing is recorded. Raises KeyError, TypeError, ..."""
        if saved is None:
            return None
        return cls(_read(saved["parts"]), _read(saved["task"]), str(saved["meaning"]))

    @property
    def sources(self) -> Sources:
        """Of all that is from outside."""
        return {**self.parts, **self.task}

    def changes(self, before: "Code | None") -> str:
        """In words what differs from the code of a run of the same objective; empty if nothing does or is known to."""
        if before is None:
            return ""
        changed = changed_sources(self.sources, before.sources)
        if not changed and self.meaning and before.meaning and self.meaning != before.meaning:
            return "what rlzoo calculates for this objective"
        return changed

    def changes_of_task(self, before: "Code | None") -> str:
        """The same of what decides an evaluation."""
        return "" if before is None else changed_sources(self.task, before.task)

    @property
    def short(self) -> str:
        """For a folder's name."""
        return digest([json.dumps(asdict(self), sort_keys=True)])[:8]


def _read(saved: Mapping[str, Mapping[str, Any]]) -> Sources:
    return {str(name): {str(file): str(text) for file, text in files.items()} for name, files in saved.items()}


def changed_sources(now: Sources, before: Sources) -> str:
    """In words the names that both have and whose code differs, with the files; empty if there are none."""
    changed = {name: _differing(now[name], before[name]) for name in now if name in before}
    named = ", ".join(f"{name} ({', '.join(files)})" for name, files in changed.items() if files)
    return f"the code of {named}" if named else ""


def _differing(now: Mapping[str, str], before: Mapping[str, str]) -> list[str]:
    return sorted(file for file in {*now, *before} if now.get(file) != before.get(file))


def task_sources(task: TaskConfig, engine: str) -> dict[str, dict[str, str]]:
    """Of the task, its rewards and the engine, as far as they are from outside."""
    return {name: labelled(used_source(defined), defined.root) for name, defined in _task_definitions(task, engine)}


def keep_sources(folder: Path, config: Config, objective: Objective) -> None:
    """Copies the files of all code from outside into a folder, to be read; nothing is imported from there."""
    parts = (_definition_of(type(part)) for part in objective.parts)
    of_task = (defined for _, defined in _task_definitions(config.task, config.rollout.engine))
    definitions = [*of_task, *filter(None, parts)]
    paths = {path for defined in definitions for path in used_source(defined)}
    if not paths:
        return
    with folder_written_atomically(folder) as unfinished:
        for path in sorted(paths):
            copy = unfinished / _place(path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())


def _place(path: Path) -> Path:
    """Where a file's copy lies: as it does below the working directory, or below the digest of its folder."""
    if path.is_relative_to(Path.cwd()):
        return path.relative_to(Path.cwd())
    return Path(digest([str(path.parent)])[:8], path.name)


def _task_definitions(task: TaskConfig, engine: str) -> Iterator[tuple[str, Definition]]:
    given = flat({"task": vars(task), "rollout": {"engine": engine}})
    names = (_task_code(value) if key.name == "task.name" else value for key, value in values_of_code(given))
    for name in dict.fromkeys(names):
        if name and is_outside(name) and (defined := definition(name)) and not is_ours(defined.module):
            yield name, defined


def _task_code(name: str) -> str | None:
    """What makes a task of this name, if it is from outside."""
    return loader(name) if name.startswith(VERIFIERS) else written_outside(name)


def part_sources(objective: Objective) -> Iterator[tuple[str, dict[str, str]]]:
    """Of those from outside, by name."""
    for part in objective.parts:
        kind = type(part)
        if not is_ours(kind.__module__):
            defined = _definition_of(kind)
            files = labelled(used_source(defined), defined.root) if defined else {"no file": code_digest(kind)}
            yield f"{module_name(kind.__module__)}:{part.name}", files


def _definition_of(kind: type) -> Definition | None:
    """Where the class of a part from outside is defined; None in a notebook, and for one of ours."""
    module = module_name(kind.__module__)
    return None if is_ours(module) else definition_in(module, kind.__qualname__.partition(".")[0])
