"""What a recorded file has to hold: it may have been cut, edited, or made by an attacker."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from rlzoo.errors import UserError, one_line

_LARGEST = 2**53
"""Beyond it numbers have gaps, where they are kept in double precision."""
_LONGEST_NAME = 255
"""Of a file, in bytes."""


@dataclass(frozen=True)
class Kind:
    """What a value may be, and how that is called."""

    name: str
    holds: Callable[[Any], bool]


def _is_number(value: Any) -> bool:
    """Whether it is NaN, infinite, or a number whose square, and sums of these, are numbers too."""
    return type(value) in (float, int) and not 1e100 < abs(value) < math.inf


COUNT = Kind("a whole number from 0", lambda value: type(value) is int and 0 <= value <= _LARGEST)
NUMBER = Kind("a number up to 1e100", _is_number)
SHARE = Kind("a number from 0 to 1", lambda value: _is_number(value) and 0 <= value <= 1)
TEXT = Kind("text", lambda value: isinstance(value, str))
TEXT_OR_NOTHING = Kind("text or null", lambda value: value is None or isinstance(value, str))
PROMPT = Kind("text or chat messages", lambda value: isinstance(value, str | list))
KEYS = Kind("keys with values", lambda value: isinstance(value, dict))
NUMBERS = Kind(
    "names with numbers up to 1e100",
    lambda value: isinstance(value, dict) and all(_is_number(it) and math.isfinite(it) for it in value.values()),
)
ANYTHING = Kind("anything", lambda value: True)


@dataclass(frozen=True)
class Fields:
    """What a record must have, what it may have, and of what kind all else is."""

    needed: Mapping[str, Kind]
    optional: Mapping[str, Kind] = field(default_factory=dict)
    others: Kind = ANYTHING

    def wrong(self, record: Mapping[str, Any]) -> str:
        """What a record lacks, or has of another kind, in words; empty if it is as it should be."""
        if missing := self.needed.keys() - record.keys():
            return f"has no {', '.join(name for name in self.needed if name in missing)}"
        for name, value in record.items():
            kind = self._kinds.get(name, self.others)
            if not kind.holds(value):
                return f"has {one_line(f'{name}={value!r}')}, which is not {kind.name}"
        return ""

    @cached_property
    def _kinds(self) -> dict[str, Kind]:
        """Of all names that are known."""
        return {**self.needed, **self.optional}


def text(value: Any) -> str:
    """The value itself. Raises TypeError for what is no text."""
    if not isinstance(value, str):
        raise TypeError(f"{one_line(repr(value))} is no text")
    return value


def name_inside(name: str) -> str:
    """The name itself. Raises UserError for one that leads out of the folder that it is in, or is too long for one."""
    if name in ("", "..") or Path(name).name != name or len(name.encode()) > _LONGEST_NAME:
        raise UserError(f"the recorded name {name[:80]!r} leads out of the folder, or is too long; put back a copy")
    return name


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """While what a file has recorded is taken in: whatever it cannot mean is one UserError that names the file."""
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise UserError(f"{path} is not readable: it is no file")
    try:
        yield
    except KeyError as error:
        raise UserError(f"{path} is not readable: it has no {one_line(error)}") from None
    except (OSError, ValueError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError) as error:
        raise UserError(f"{path} is not readable: {one_line(error)}") from None
