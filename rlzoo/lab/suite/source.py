"""The digest of the code that a cell's numbers come from, so that a changed experiment's old cells are not mixed in.

What counts is the task's class, the function that measures, and what these two use that lies beside them: without
comments, docstrings and claims, which change no number.
"""

import ast
import inspect
import json
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from objectives import Objective
from rlzoo.experiment.identity import part_sources
from rlzoo.lab.suite.experiment import Experiment
from rlzoo.source import digest, normalised

_ROOM = f"{__package__}."
_RECORDED = "rlzoo.suite."
"""The room's name in keys of objectives: what it was called when the first cells were kept."""


def experiment_digest(experiment: Experiment) -> str:
    """Of the code and the starting policy of an experiment."""
    start = json.dumps(asdict(experiment.start), sort_keys=True)
    return digest([start, *_sources([experiment.task, experiment.measure])])


def objective_key(objective: Objective) -> str:
    """Its key; with the digest of parts from outside or made for experiments, as no version says what they are."""
    sources = _sources([type(part) for part in objective.parts if type(part).__module__.startswith(_ROOM)])
    outside = [json.dumps(files, sort_keys=True) for _, files in sorted(part_sources(objective))]
    key = _recorded_key(objective) if sources else objective.key
    return f"{key} {digest([*sources, *outside])}" if sources or outside else key


def _recorded_key(objective: Objective) -> str:
    """`Objective.key` as it was while the parts of this room were in `_RECORDED`."""
    written = " . ".join(part.identity.replace(_ROOM, _RECORDED) for part in objective.parts)
    return f"{written} #{blake2b(written.encode(), digest_size=5).hexdigest()}"


def _sources(begin: list[Any]) -> list[str]:
    """The sources of functions and classes, and of all that they name in their own files or in this room."""
    folders = {_folder(definition.__module__) for definition in begin}
    texts, waiting = dict[str, str](), list(begin)
    while waiting:
        definition = waiting.pop()
        name = f"{definition.__module__}.{definition.__qualname__}"
        if name in texts or not (definition.__module__.startswith(_ROOM) or _folder(definition.__module__) in folders):
            continue
        texts[name] = normalised(ast.parse(textwrap.dedent(inspect.getsource(definition))))
        for used, value in _used(definition):
            value = inspect.unwrap(value) if callable(value) else value
            if isinstance(value, type | FunctionType):
                waiting.append(value)
            elif (text := _constant(value)) is not None:
                texts[f"{definition.__module__}.{used}"] = text
    return [text for _, text in sorted(texts.items())]


def _folder(module: str) -> Path | None:
    file = getattr(sys.modules.get(module), "__file__", None)
    return Path(file).parent if file else None


def _used(definition: Any) -> Iterator[tuple[str, Any]]:
    """The globals that a function, or a class's methods and bases, name."""
    if isinstance(definition, type):
        yield from ((base.__qualname__, base) for base in definition.__mro__[1:-1])
        functions = [_function(value) for value in vars(definition).values()]
    else:
        functions = [definition]
    for function in functions:
        if isinstance(function, FunctionType):
            known = function.__globals__
            yield from ((name, known[name]) for name in sorted(set(_names(function.__code__))) if name in known)


def _function(member: Any) -> Any:
    """What a property, a cached one, a static or a class method calls."""
    return next((getattr(member, name) for name in ("fget", "func", "__func__") if hasattr(member, name)), member)


def _names(code: CodeType) -> Iterator[str]:
    yield from (name for name in code.co_names if not name.startswith("__"))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _constant(value: Any) -> str | None:
    """As text, if it is plain data."""
    try:
        return json.dumps(sorted(value) if isinstance(value, set | frozenset) else value, sort_keys=True)
    except (TypeError, ValueError):
        return None
