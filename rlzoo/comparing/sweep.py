"""Sweeps: a list where one value belongs makes a row of each value.

`train.learning_rate=[1e-5,1e-4]` does so for a key, `s2t(tau_p=[0.001,0.002])` for a parameter of an objective.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from rlzoo.config import Config, keys
from rlzoo.errors import UserError

_LIST = re.compile(r"([\w.]+)\s*=\s*\[([^\[\]]*)\]")


@dataclass(frozen=True)
class Sweep:
    """What sets a row of a sweep apart from the others."""

    family: str = ""
    """The expression as it was typed, lists and all; empty if nothing was swept."""
    values: tuple[tuple[str, str], ...] = ()
    """Of each swept parameter and key."""
    words: tuple[str, ...] = ()
    """Those that are settings of the run, `train.learning_rate=1e-5`; an expression does not show them."""

    @property
    def keys(self) -> frozenset[str]:
        """The keys that its words set."""
        return frozenset(key for key, _ in self.meant)

    @property
    def meant(self) -> tuple[tuple[str, float | str], ...]:
        """What its words set, however the numbers are written: 1e-5 is 0.00001."""
        pairs = [(key, value) for key, _, value in (word.partition("=") for word in self.words)]
        numbers = {key: number(value) for key, value in pairs if key not in _keys_of_text()}
        return tuple((key, value if (size := numbers.get(key)) is None else size) for key, value in pairs)

    @classmethod
    def read(cls, saved: Mapping[str, Any]) -> "Sweep":
        """From what `asdict` made of it and JSON of that."""
        values = tuple((str(name), str(value)) for name, value in saved["values"])
        return cls(str(saved["family"]), values, tuple(map(str, saved["words"])))


def split_settings(settings: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words that every run shares, and those with a list for a key that takes one value."""
    of_one_value = {key.name for key in keys(Config) if not isinstance(key.default, (list, tuple, dict))}
    swept = [word for word in settings if (match := _LIST.fullmatch(word)) and match[1] in of_one_value]
    return tuple(word for word in settings if word not in swept), tuple(swept)


def variants(expression: str, swept: Sequence[str]) -> Iterator[tuple[str, Sweep]]:
    """Every expression that one with lists stands for, with every combination of the swept settings.

    Raises UserError for a list without values.
    """
    lists = [list(_LIST.finditer(expression)), *([_whole(word)] for word in swept)]
    inside, settings = lists[0], [match for matches in lists[1:] for match in matches]
    for chosen in itertools.product(*map(_values, (*inside, *settings))):
        text = expression
        for match, value in reversed(list(zip(inside, chosen, strict=False))):
            text = f"{text[: match.start()]}{match[1]}={value}{text[match.end() :]}"
        words = tuple(f"{match[1]}={value}" for match, value in zip(settings, chosen[len(inside) :], strict=True))
        values = tuple((match[1], value) for match, value in zip((*inside, *settings), chosen, strict=True))
        yield text, Sweep(expression, values, words) if values else Sweep()


@cache
def _keys_of_text() -> frozenset[str]:
    return frozenset(key.name for key in keys(Config) if isinstance(key.default, str))


def number(value: str) -> float | None:
    """A swept value that has a place on an axis."""
    try:
        return float(value)
    except ValueError:
        return None


def _whole(word: str) -> re.Match[str]:
    match = _LIST.fullmatch(word)
    assert match
    return match


def _values(match: re.Match[str]) -> list[str]:
    values = list(dict.fromkeys(value.strip().strip("\"'") for value in match[2].split(",")))
    if not all(values):
        raise UserError(f"{match[0]} has an empty value; a sweep is written {match[1]}=[1,2]")
    return values
