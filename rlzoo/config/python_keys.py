"""Keys that are given in Python, as the words of a command line."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlzoo.config.reading import flat
from rlzoo.config.writing import key_and_value
from rlzoo.errors import UserError
from rlzoo.scripts import path_of

_SHORT = {"model": "model.name", "task": "task.name", "reward": "task.reward"}
"""Arguments with a name of their own -> the keys that they set."""


def python_words(keys: Mapping[str, Any]) -> list[str]:
    """Keys from Python as a command line has them."""
    return [word for key, value in keys.items() for word in _words_of_one(key, value)]


def _words_of_one(key: str, value: Any) -> list[str]:
    if isinstance(value, Mapping) and not key.endswith("options"):
        return [word for name, inner in flat(value).items() for word in _words_of_one(f"{key}.{name}", inner)]
    if value is None and "." not in key:  # an argument that is not given; behind a dot, None is a value as in a file
        return []
    key = _SHORT.get(key, key)
    return [key_and_value(key, _plain(key, value))]


def _plain(key: str, value: Any) -> Any:
    """As JSON has it; a function is the name under which other processes find it."""
    if callable(value):
        return path_of(key, value)
    value = str(value) if isinstance(value, Path) else native(value)
    if isinstance(value, Mapping):
        return {name: _plain(f"{key}.{name}", member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(key, member) for member in value]
    if value is None or isinstance(value, str | int | float):
        return value
    kind = type(value).__name__
    raise UserError(f"{key}: no key takes a value of type {kind}; give numbers, text, lists, a class or a function")


def native(value: Any) -> Any:
    """Python's own number or lists instead of numpy's and torch's."""
    return value.tolist() if hasattr(value, "tolist") else value
