"""Tables between the settings of another library and the terms of an expression, read in both directions.

A rule says: these settings there are these parts here. A word of capitals stands for a number on both sides, so that
one table translates either way. Of each stage the first rule holds that is true of the settings.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from objectives.batch import FIELDS
from objectives.errors import ObjectiveError
from objectives.peers.installed import Installed, committed, flat

UNREAD = {name: declared.words for name, declared in FIELDS.items() if declared.words}
"""Field of the batch that our own loop fills, and an adapter only where it is `reported` -> what it is, in words."""

OF_OBJECTIVES = re.compile(r"loss|advantage|adv_|(?:^|[._])kl|clip|reward")
"""What names of settings have that decide the objective."""


@dataclass(frozen=True)
class Rule:
    """What some settings are here: parts with every parameter that is not its default, joined by +.

    `terms` is empty where they ask for nothing, and None where nothing here does it; `difference` then says why.
    """

    terms: str | None
    settings: Mapping[str, Any]
    """A value, a tuple of values that mean the same (the first is written), a word of capitals, Shifted or Bounded."""
    difference: str = ""
    """What the library does otherwise."""
    also: Mapping[str, Any] = field(default_factory=dict)
    """Further settings that are written with it, on which it does not depend."""
    read_only: bool = False
    """Whether the version itself lacks it, so that it is read and never written."""


@dataclass(frozen=True)
class Shifted:
    """A number counted from elsewhere: theirs is ours + `by`; ours is at least `least`, and `most` if it is more."""

    name: str
    by: float = 0.0
    least: float = float("-inf")
    most: float = float("inf")


@dataclass(frozen=True)
class Bounded:
    """Two bounds that are written together, as in "0.5_2.0", with the names that ours have.

    `inverse`: theirs bound the reciprocal of our ratio, and a single number stands for its reciprocal and itself.
    """

    low: str
    high: str
    inverse: bool = False


@dataclass(frozen=True)
class Program:
    """What a program of another package that trains with the library does otherwise."""

    defaults: Mapping[str, Any] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    """What names begin with that it reads itself -> what they are in the library."""
    ignored: Mapping[str, str] = field(default_factory=dict)
    """What names begin with that the library reads and it does not -> what it reads."""


@dataclass(frozen=True)
class PeerTable:
    """Another library: the settings that its objective is made of, and the rules of each stage."""

    name: str
    stages: Mapping[str, Sequence[Rule]]
    elsewhere: tuple[str, ...]
    """Settings, or what their names begin with, which are those of a run and not of its objective."""
    other_names: Mapping[str, str]
    """Older or longer name of a setting -> the one in the table."""
    former_names: Mapping[str, str] = field(default_factory=dict)
    """What names begin with that older versions read and this one ignores -> what it reads."""
    programs: Mapping[str, "Program"] = field(default_factory=dict)
    """What the names of programs of other packages begin with -> what they do otherwise."""
    absent: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the objective that its own configuration lacks, and what they are unless they are set."""
    always: tuple[str, ...] = ()
    """What it does otherwise whatever the settings."""
    instead: Mapping[str, str] = field(default_factory=dict)
    """Setting -> the one whose value it has where it is null."""
    as_read: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict
    """Settings -> settings that mean the same there and that the rules can read."""
    adapter: str = ""
    """By what it trains with objectives of the zoo, where there is such a thing."""
    also_of_run: frozenset[str] = frozenset()
    """Settings that decide more than the objective: they are never named as unread."""
    reported: frozenset[str] = frozenset()
    """Fields of UNREAD that the adapter has from its scoring pass."""

    @cached_property
    def installed(self) -> Installed:
        """What the version has that the rules were written for."""
        return committed(self.name)

    @property
    def version(self) -> str:
        """The library's version."""
        return self.installed.version

    @cached_property
    def defaults(self) -> Mapping[str, Any]:
        """Every setting that its objective may depend on, and what it is unless it is set."""
        keys = dict.fromkeys(key for rules in self.stages.values() for rule in rules for key in rule.settings)
        keys |= dict.fromkeys(self.instead.values())
        there = {key: self.installed.defaults[key] for key in keys if key not in self.absent}
        return {**there, **self.absent}

    def lacking(self, needs: frozenset[str]) -> str:
        """Which of the fields that an objective needs the adapter does not get, in words; empty if none."""
        lacking = [what for name, what in UNREAD.items() if name in needs - self.reported]
        return " and ".join(dict.fromkeys(lacking))


def matches(pattern: Any, value: Any, numbers: dict[str, Any]) -> bool:
    """Whether a value is what a rule's setting says; takes numbers that words of capitals stand for."""
    if isinstance(pattern, Shifted):
        if not is_number(value):
            return False
        ours = min(round(value - pattern.by, 12), pattern.most)
        return bool(ours >= pattern.least and numbers.setdefault(pattern.name, ours) == ours)
    if isinstance(pattern, Bounded):
        bounds = _bounds(pattern, value)
        return bounds is not None and all(numbers.setdefault(name, ours) == ours for name, ours in bounds.items())
    if isinstance(pattern, str) and pattern.isupper():
        return is_number(value) and bool(numbers.setdefault(pattern, value) == value)
    if isinstance(pattern, tuple):
        return any(matches(choice, value, numbers) for choice in pattern)
    return bool(value == pattern) and isinstance(value, bool) == isinstance(pattern, bool)


def _bounds(pattern: Bounded, value: Any) -> dict[str, float] | None:
    """Ours by their names; None for what are no two bounds."""
    low, _, high = str(value).partition("_")
    try:
        theirs = (float(low), float(high)) if high else (1 / float(low), float(low)) if pattern.inverse else None
    except (ValueError, ZeroDivisionError):
        return None
    if theirs is None or min(theirs) <= 0 or isinstance(value, bool):
        return None
    ours = tuple(round(1 / bound, 12) for bound in reversed(theirs)) if pattern.inverse else theirs
    return dict(zip((pattern.low, pattern.high), ours, strict=True))


def setting_value(pattern: Any, numbers: Mapping[str, Any]) -> Any:
    """The value that a rule's setting has, with these numbers."""
    if isinstance(pattern, Shifted):
        return round(numbers[pattern.name] + pattern.by, 12)
    if isinstance(pattern, Bounded):
        ours = numbers[pattern.low], numbers[pattern.high]
        low, high = (
            (round(1 / bound, 12) if bound else math.inf for bound in reversed(ours)) if pattern.inverse else ours
        )
        return f"{low}_{high}"
    if isinstance(pattern, str) and pattern.isupper():
        return numbers[pattern]
    return pattern[0] if isinstance(pattern, tuple) else pattern


def is_number(value: Any) -> bool:
    """Whether it is one, no truth value, and none that calculations cannot hold."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, float) or abs(value) < 2**1000


def read(table: PeerTable, given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str], list[str]]:
    """The settings that the table knows, those of the run, and those that are neither.

    Raises ObjectiveError for a setting that is given twice.
    """
    known: dict[str, Any] = {}
    elsewhere, unknown = [], []
    for name, value in flat(given):
        name = name.lstrip("+-").replace("-", "_") if name.startswith(("+", "--")) else name
        now = table.other_names.get(name, name)
        is_unset = now != name and value is None  # an older name beside the newer one, as in the library's own file
        name = name if is_unset else now
        if name in table.defaults:
            if name in known and known[name] != value:
                raise ObjectiveError(f"{table.name}: {name} is given twice, as {known[name]} and as {value}")
            known[name] = _plain(value)
        elif name.endswith("._target_") or any(map(partial(_is_of, name), table.elsewhere)) or _is_of_run(table, name):
            elsewhere.append(name)
        else:
            unknown.append(f"{name}={value}")
    return known, elsewhere, unknown


def renamed(names: Mapping[str, str], given: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Settings whose names begin with one of those on the left: the name, the name on the right, and the value."""
    for name, value in flat(given):
        plain = name.lstrip("+")
        for former, now in names.items():
            if plain.startswith(former):
                yield name, now + plain.removeprefix(former), value


def _is_of_run(table: PeerTable, name: str) -> bool:
    """Whether the library has a setting of this name whose name is none of an objective's."""
    return name in table.installed.defaults and not OF_OBJECTIVES.search(name)


def _is_of(name: str, run: str) -> bool:
    """Whether a setting is one of a run's, or begins as its group does."""
    return name == run or (run.endswith(".") and name.startswith(run))


def _plain(value: Any) -> Any:
    """What YAML leaves as text: 1e-6, and None; not "0.5_5", which Python would take for 0.55."""
    if isinstance(value, str):
        try:
            return value if "_" in value else int(value) if value.lstrip("+-").isdigit() else float(value)
        except ValueError:
            return {"True": True, "False": False, "None": None}.get(value, value)
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
