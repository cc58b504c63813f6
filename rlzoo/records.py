"""What a recorded file has to hold: it may have been cut, edited, or made by somebody who wishes us ill."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlzoo.errors import UserError, one_line

_LARGEST = 2**53
"""Beyond it numbers have gaps, where they are kept in double precision."""


@dataclass(frozen=True)
class Kind:
    """What a value may be, and how that is called."""

    name: str
    holds: Callable[[Any], bool]


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool) and value < 2**1000)


COUNT = Kind("a whole number from 0", lambda it: _is_number(it) and isinstance(it, int) and 0 <= it <= _LARGEST)
NUMBER = Kind("a number", _is_number)
SHARE = Kind("a number from 0 to 1", lambda it: _is_number(it) and 0 <= it <= 1)
TEXT = Kind("text", lambda it: isinstance(it, str))
TEXT_OR_NOTHING = Kind("text or null", lambda it: it is None or isinstance(it, str))
PROMPT = Kind("text or chat messages", lambda it: isinstance(it, str | list))
KEYS = Kind("keys with values", lambda it: isinstance(it, dict))
NUMBERS = Kind("names with numbers", lambda it: isinstance(it, dict) and all(map(_is_number, it.values())))
BOUNDED = Kind(
    "names with numbers up to 1e100",
    lambda it: NUMBERS.holds(it) and all(abs(value) <= 1e100 for value in it.values()),
)
"""Whose squares, and sums of these, are numbers too."""
ANYTHING = Kind("anything", lambda it: True)


@dataclass(frozen=True)
class Fields:
    """What a record must have, what it may have, and of what kind all else is."""

    needed: Mapping[str, Kind]
    optional: Mapping[str, Kind] = field(default_factory=dict)
    others: Kind = ANYTHING

    def wrong(self, record: Mapping[str, Any]) -> str:
        """What a record lacks, or has of another kind, in words; empty if it is as it should be."""
        missing = [name for name in self.needed if name not in record]
        if missing:
            return f"has no {', '.join(missing)}"
        kinds = {**self.needed, **self.optional}
        for name, value in record.items():
            kind = kinds.get(name, self.others)
            if not kind.holds(value):
                return f"has {one_line(f'{name}={value!r}')}, which is not {kind.name}"
        return ""


def text(value: Any) -> str:
    """The value itself. Raises TypeError for what is no text."""
    if not isinstance(value, str):
        raise TypeError(f"{one_line(repr(value))} is no text")
    return value


def name_inside(name: str) -> str:
    """The name itself. Raises UserError for one that leads out of the folder that it is in."""
    if name in ("", "..") or Path(name).name != name:
        raise UserError(f"the recorded name {name!r} leads out of the folder; put back a copy")
    return name


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """While what a file has recorded is taken in: whatever it cannot mean is one UserError that names the file."""
    try:
        yield
    except KeyError as error:
        raise UserError(f"{path} is not readable: it has no {one_line(error)}") from None
    except (OSError, ValueError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError) as error:
        raise UserError(f"{path} is not readable: {one_line(error)}") from None
