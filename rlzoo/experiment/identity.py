"""What a run is known by later: the key of its objective, and the digests of the code from outside that made it.

Only names that a person typed or trusts are looked up here. What a folder has recorded is compared, never imported.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from objectives import Objective, ObjectiveError, module_name, parse
from rlzoo.config import Config, TaskConfig, flat
from rlzoo.config.recorded import OBJECTIVE, is_outside, outside_names, values_of_code
from rlzoo.errors import UserError
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import folder_written_atomically, read_json_file, slug
from rlzoo.records import reading
from rlzoo.source import Definition, code_digest, is_ours, relative_names, used_source
from rlzoo.source import digest as text_digest
from rlzoo.tasks import written_outside
from rlzoo.tasks.outside import definition, definition_in

LONGEST_NAME = 100
Sources = Mapping[str, Mapping[str, str]]
"""Name from outside -> file, as it is called from the folder of its module -> digest of what the name uses of it."""
_SCHEME = "2:"
"""How digests begin. Those of earlier versions, which counted other statements, have no such beginning."""

# ---- code from outside -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Code:
    """The code from outside that a run is made with."""

    parts: Sources
    """Of the objective."""
    task: Sources
    """Of the task, the rewards and the engine: what decides an evaluation as well."""

    @classmethod
    def of(cls, config: Config, objective: Objective) -> "Code":
        """The code that is there now. Raises UserError if a file was edited since this process imported it."""
        return cls(dict(part_sources(objective)), task_sources(config.task, config.rollout.engine))

    @classmethod
    def read(cls, saved: Mapping[str, Any] | None) -> "Code | None":
        """From JSON of what `asdict` made of it. Raises KeyError, TypeError, ...

        None if nothing is recorded, or digests of earlier versions, which say nothing of the code that is there now.
        """
        if saved is None:
            return None
        code = cls(_read(saved["parts"]), _read(saved["task"]))
        digests = [text for files in code.sources.values() for text in files.values()]
        return code if all(text.startswith(_SCHEME) for text in digests) else None

    @property
    def sources(self) -> Sources:
        """Digests of all that is from outside."""
        return {**self.parts, **self.task}

    def changes(self, before: "Code | None") -> str:
        """In words what differs from the code of a run of the same objective; empty if nothing is known to."""
        return "" if before is None else changed_sources(self.sources, before.sources)

    def changes_of_task(self, before: "Code | None") -> str:
        """In words what differs of what decides an evaluation."""
        return "" if before is None else changed_sources(self.task, before.task)

    @property
    def short(self) -> str:
        """For a folder's name."""
        return text_digest([json.dumps(asdict(self), sort_keys=True)])[:8]


def _read(saved: Mapping[str, Mapping[str, Any]]) -> Sources:
    return {str(name): {str(file): str(text) for file, text in files.items()} for name, files in saved.items()}


def changed_sources(now: Sources, before: Sources) -> str:
    """In words the names that both have and whose code differs, with the files; empty if there are none.

    What an earlier version recorded is not compared.
    """
    changed = {name: _differing(now[name], before[name]) for name in now if name in before}
    named = ", ".join(f"{name} ({', '.join(files)})" for name, files in changed.items() if files)
    return f"the code of {named}" if named else ""


def _differing(now: Mapping[str, str], before: Mapping[str, str]) -> list[str]:
    if not all(text.startswith(_SCHEME) for text in before.values()):
        return []
    return sorted(file for file in {*now, *before} if now.get(file) != before.get(file))


def part_sources(objective: Objective) -> Iterator[tuple[str, dict[str, str]]]:
    """Name and digests of each part from outside."""
    for part in objective.parts:
        kind = type(part)
        if not is_ours(kind.__module__):
            defined = _definition_of(kind)
            files = _digests(defined) if defined else {"no file": f"{_SCHEME}{code_digest(kind)}"}
            yield f"{module_name(kind.__module__)}:{part.name}", files


def task_sources(task: TaskConfig, engine: str) -> dict[str, dict[str, str]]:
    """Digests of the task, its rewards and the engine, as far as they are from outside."""
    return {name: _digests(defined) for name, defined in _task_definitions(task, engine)}


def _digests(defined: Definition) -> dict[str, str]:
    used = used_source(defined)
    names = relative_names(used, defined.root)
    return {names[path]: f"{_SCHEME}{text}" for path, text in used.items()}


def keep_sources(folder: Path, config: Config, objective: Objective) -> set[Path]:
    """Copies the files of all code from outside into a folder, to be read; returns them.

    Nothing is imported from the copies.
    """
    parts = (_definition_of(type(part)) for part in objective.parts)
    of_task = (defined for _, defined in _task_definitions(config.task, config.rollout.engine))
    definitions = [*of_task, *filter(None, parts)]
    paths = {path for defined in definitions for path in used_source(defined)}
    if not paths:
        return paths
    with folder_written_atomically(folder) as unfinished:
        for path in sorted(paths):
            copy = unfinished / _place(path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    return paths


def _place(path: Path) -> Path:
    """Where a file's copy lies: as it does below the working directory, or below the digest of its folder."""
    if path.is_relative_to(Path.cwd()):
        return path.relative_to(Path.cwd())
    return Path(text_digest([str(path.parent)])[:8], path.name)


def _task_definitions(task: TaskConfig, engine: str) -> Iterator[tuple[str, Definition]]:
    given = flat({"task": vars(task), "rollout": {"engine": engine}})
    names = (written_outside(value) if key.name == "task.name" else value for key, value in values_of_code(given))
    for name in dict.fromkeys(names):
        if name and is_outside(name) and (defined := definition(name)) and not is_ours(defined.module):
            yield name, defined


def _definition_of(kind: type) -> Definition | None:
    """Where the class of a part from outside is defined; None in a notebook, and for one of ours."""
    module = module_name(kind.__module__)
    return None if is_ours(module) else definition_in(module, kind.__qualname__.partition(".")[0])


# ---- objectives ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recorded:
    """An objective as a file keeps it."""

    key: str
    expression: str
    """What meant it at that time."""
    code: Code | None = field(default=None, kw_only=True)
    """None where the version of rlzoo that made the file did not record it, or in another way."""

    @property
    def meant_now(self) -> Objective | None:
        """What the expression means now, nothing being imported for it; None if it means nothing any more."""
        try:
            return parse(self.expression, imports=False)
        except ObjectiveError:
            return None

    @property
    def shortest(self) -> str:
        """The shortest way to write it now, for people; the recorded one if that means something else now."""
        now = self.meant_now
        return str(now) if now is not None and now.key == self.key else self.expression


@dataclass(frozen=True)
class RecordedRun(Recorded):
    """The objective of a run."""

    versions: tuple[str, ...] = ()
    """The versions of rlzoo that made it, one after the other; none where they are not recorded."""


def read_objective(folder: Path) -> RecordedRun:
    """The objective of the run in a folder; where none is recorded, what its configuration says means now.

    Imports nothing. Raises UserError or ObjectiveError where neither can be read.
    """
    if not (folder / OBJECTIVE).exists():
        return _as_configured(RunFolder(folder))
    with reading(folder / OBJECTIVE):
        values = read_json_file(folder / OBJECTIVE)
        versions = tuple(map(str, values.get("rlzoo", ())))
        return RecordedRun(str(values["key"]), str(values["expression"]), versions, code=Code.read(values.get("code")))


def _as_configured(run: RunFolder) -> RecordedRun:
    written = run.read_config().objective
    try:
        return RecordedRun(parse(written, imports=False).key, written)
    except ObjectiveError:
        if not outside_names({"objective": written}):
            raise
        raise UserError(
            f"{run.path} has no {OBJECTIVE}, and {run.config} names code of its own, objective={written}, and is not "
            f"obeyed; if you trust it, rlzoo train {run.config} output={run.path} trust={run.path} resume=true "
            f"writes down what it means"
        ) from None


def unique_labels(recorded: Iterable[Recorded]) -> dict[str, str]:
    """Key -> the shortest expression, for people, with the digest behind it where another key has the same."""
    shortest = {entry.key: entry.shortest for entry in recorded}
    times = Counter(shortest.values())
    return {key: text if times[text] == 1 else f"{text} #{digest(key)}" for key, text in shortest.items()}


def has_changed(written: str, now: str, then: str, where: str) -> str:
    """Says in which parts the key that an expression has now differs from the one that it had."""
    ours, theirs = (key.rpartition(" #")[0].split(" . ") for key in (now, then))
    added = ", ".join(part for part in ours if part not in theirs)
    gone = ", ".join(part for part in theirs if part not in ours)
    return f"{written} has {added or 'no further part'} now, where {where} has {gone or 'none'}"


def digest(key: str) -> str:
    """The short end of a key."""
    return key.rpartition("#")[2]


def folder_name(asked: str, key: str) -> str:
    """A folder's name for an objective, from how it was asked for, whatever else is registered."""
    name = slug(re.sub(r"\s*([-+(),=])\s*", r"\1", asked))
    return name if len(name) <= LONGEST_NAME else f"{name[:90]}-{digest(key)}"
