"""Tables between the settings of another library and the terms of an expression, read in both directions.

A row says: these settings there are these parts here. A word of capitals stands for a number on both sides, so that one
table translates either way. Each stage of a table has exactly one row that holds.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlzoo.errors import UserError


@dataclass(frozen=True)
class Row:
    """What some settings are here: parts with every parameter that is not its default, joined by +.

    `terms` is empty where they ask for nothing, and None where nothing here does it; `difference` then says why.
    """

    terms: str | None
    settings: Mapping[str, Any]
    """A value, a tuple of values that mean the same (the first is written), a word of capitals, or Shifted."""
    difference: str = ""
    """What the library does otherwise."""


@dataclass(frozen=True)
class Shifted:
    """A number counted from elsewhere: theirs is ours + `by`; ours is at least `least`, and `most` if it is more."""

    name: str
    by: float = 0.0
    least: float = float("-inf")
    most: float = float("inf")


@dataclass(frozen=True)
class Peer:
    """Another library: the settings that its objective is made of, and the rows of each stage."""

    name: str
    version: str
    defaults: Mapping[str, Any]
    """Every setting that some row reads, and what it is if nobody sets it."""
    stages: Mapping[str, Sequence[Row]]
    elsewhere: tuple[str, ...]
    """Settings, or what their names begin with, which are those of a run and not of its objective."""
    other_names: Mapping[str, str]
    """Older or longer name of a setting -> the one in the table."""
    always: tuple[str, ...] = ()
    """What it does otherwise whatever the settings."""
    instead: Mapping[str, str] = field(default_factory=dict)
    """Setting -> the one whose value it has where it is null."""
    odd: Callable[[Mapping[str, Any]], Sequence[str]] = lambda values: ()
    """What settings that do not go together do otherwise."""


def bound(pattern: Any, value: Any, numbers: dict[str, Any]) -> bool:
    """Whether a value is what a row's setting says; takes numbers that words of capitals stand for."""
    if isinstance(pattern, Shifted):
        if not is_number(value):
            return False
        ours = min(round(value - pattern.by, 12), pattern.most)
        return bool(ours >= pattern.least and numbers.setdefault(pattern.name, ours) == ours)
    if isinstance(pattern, str) and pattern.isupper():
        if not is_number(value):
            return False
        return bool(numbers.setdefault(pattern, value) == value)
    if isinstance(pattern, tuple):
        return any(bound(choice, value, numbers) for choice in pattern)
    if isinstance(pattern, list):
        return (
            isinstance(value, list)
            and len(value) == len(pattern)
            and all(bound(*pair, numbers) for pair in zip(pattern, value, strict=True))
        )
    return bool(value == pattern) and isinstance(value, bool) == isinstance(pattern, bool)


def written(pattern: Any, numbers: Mapping[str, Any]) -> Any:
    """The value that a row's setting has, with these numbers."""
    if isinstance(pattern, Shifted):
        return round(numbers[pattern.name] + pattern.by, 12)
    if isinstance(pattern, str) and pattern.isupper():
        return numbers[pattern]
    if isinstance(pattern, tuple):
        return pattern[0]
    return [written(item, numbers) for item in pattern] if isinstance(pattern, list) else pattern


def is_number(value: Any) -> bool:
    """Whether it is one, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names and values of nested settings."""
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from flat(value, f"{name}.")
        else:
            yield name, value


def read(peer: Peer, given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str], list[str]]:
    """The settings that the table knows, those of the run, and those that are neither."""
    known: dict[str, Any] = {}
    elsewhere, unknown = [], []
    for name, value in flat(given):
        name = name.lstrip("+-").replace("-", "_") if name.startswith(("+", "--")) else name
        name = peer.other_names.get(name, name)
        if name in peer.defaults:
            if name in known and known[name] != value:
                raise UserError(f"{peer.name}: {name} is given twice, as {known[name]} and as {value}")
            known[name] = _plain(value)
        elif any(name == it or (it.endswith(".") and name.startswith(it)) for it in peer.elsewhere):
            elsewhere.append(name)
        else:
            unknown.append(f"{name}={value}")
    return known, elsewhere, unknown


def _plain(value: Any) -> Any:
    """What YAML leaves as text: 1e-6, and None."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return {"True": True, "False": False, "None": None}.get(value, value)
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
