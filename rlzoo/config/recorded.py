"""What a recorded file may do: it is data, and says nothing of what code to import.

Code from outside has a name: a part or recipe `my_module:part`, a task, a reward, a tool, an environment (also the
address of a server that is one), an engine, or `model.trust_remote_code`. A name is imported if a person types it, or
names a YAML file of their own that has it.
What rlzoo has recorded (the config.yaml of a run, grid.json, kept responses) may have come from anybody: a name that
no one but such a file says is refused, unless `trust=` names the file or a folder around it. `objective.json` is
compared by its key; nothing is imported for it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlzoo.config.sections import VERIFIERS
from rlzoo.errors import UserError

CONFIG, OBJECTIVE = "config.yaml", "objective.json"
"""What a run records of itself."""
_BESIDE = (OBJECTIVE, "environment.json", "metrics.jsonl", "checkpoints", "evaluation")
"""What lies beside a config.yaml that a run has recorded."""
_PART = re.compile(r"[\w.]+:\w+")
_OUTSIDE = re.compile(r"(.+\.py|[^\W\d][\w.]*):[^\W\d]\w*")
_SHIPPED = "reasoning_gym:"
_SHIPPED_TOOLS = ("rlzoo.tasks.calculator:calculate",)
"""By their whole names: not everything in rlzoo may be called by whatever a model writes."""


@dataclass(frozen=True)
class RecordedKeys:
    """The keys, with dots, that a file has which a run, a grid or an evaluation has left."""

    file: Path
    keys: Mapping[str, Any]


def outside_names(keys: Mapping[str, Any]) -> dict[str, str]:
    """The names of code from outside in a configuration, each with the key and value that has it.

    `keys` are dotted; those that are not there name nothing.
    """
    objective, task = (keys.get(key) or "" for key in ("objective", "task.name"))
    named = {name: f"objective={objective}" for name in _PART.findall(str(objective))}
    is_outside = _OUTSIDE.fullmatch(str(task)) and not str(task).startswith(_SHIPPED)
    if is_outside or str(task).startswith(VERIFIERS):
        named[str(task)] = f"task.name={task}"
    if _OUTSIDE.fullmatch(engine := str(keys.get("rollout.engine") or "")):
        named[engine] = f"rollout.engine={engine}"
    for key in ("task.reward", "task.tools", "task.environment"):
        listed = keys.get(key) or []
        for name in listed if isinstance(listed, list | tuple) else [listed]:
            named |= {str(name): f"{key}={name}"} if name and name not in _SHIPPED_TOOLS else {}
    if keys.get("model.trust_remote_code") not in (None, False, "false"):
        named["model.trust_remote_code"] = "model.trust_remote_code=true"
    return named


def check_recorded(
    recorded: Iterable[RecordedKeys], typed: Iterable[Mapping[str, Any]] = (), trust: Sequence[str] = ()
) -> None:
    """Raises UserError for a name from outside that is neither among the `typed` keys nor in a file under `trust`.

    So does a `trust` that covers no file with such a name.
    """
    allowed = {name: said for keys in typed for name, said in outside_names(keys).items()}
    naming = [(it.file, names) for it in recorded if (names := _further(outside_names(it.keys), allowed))]
    for path in trust:
        if not any(_covers(path, file) for file, _ in naming):
            raise UserError(f"trust={path} has no effect: no file in it that is read names code; leave it out")
    for file, names in naming:
        if not any(_covers(path, file) for path in trust):
            name, said = next(iter(names.items()))
            code = "it" if "://" in name else name.removeprefix(VERIFIERS).rpartition(":")[0] or "it"
            raise UserError(
                f"{file} names code of its own, {said}, and is not obeyed; read {code}, "
                f"and add trust={file} if you trust it"
            )


def _further(names: Mapping[str, str], allowed: Mapping[str, str]) -> dict[str, str]:
    return {name: said for name, said in names.items() if name not in allowed}


def _covers(path: str, file: Path) -> bool:
    return file.resolve().is_relative_to(Path(path).expanduser().resolve())


def is_of_a_run(file: Path) -> bool:
    """Whether a YAML file is what a run has recorded of itself, and not one that a person has written."""
    return file.name == CONFIG and any((file.parent / name).exists() for name in _BESIDE)
