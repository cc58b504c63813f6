"""What a key may be besides its type."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar, Protocol

from rlzoo.errors import UserError


@dataclass(frozen=True)
class Range:
    """Ends of an interval, or a few words; of a list each value must be inside, and none (`None`) always is."""

    least: float = -math.inf
    above: float = -math.inf
    below: float = math.inf
    most: float = math.inf
    choices: tuple[str, ...] = ()

    def __contains__(self, value: Any) -> bool:
        if self.choices:
            return str(value) in self.choices
        is_above = self.above == -math.inf or value > self.above
        is_below = self.below == math.inf or value < self.below
        return is_above and is_below and self.least <= value <= self.most

    def __str__(self) -> str:
        """As a sentence has it: `from 0 to 1`, `at least 0 and less than 1`."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if math.isfinite(self.least) and math.isfinite(self.most):
            return f"from {self.least:g} to {self.most:g}"
        ends = {"at least": self.least, "greater than": self.above, "less than": self.below, "at most": self.most}
        return " and ".join(f"{words} {end:g}" for words, end in ends.items() if math.isfinite(end))


class Ranged(Protocol):
    """A schema with the ranges of its keys, dotted where they are in a section."""

    ranges: ClassVar[Mapping[str, Range]]


def check_keys(config: Ranged) -> None:
    """Raises UserError naming the first key that is out of its range, its value and what is allowed."""
    for key, allowed in config.ranges.items():
        value = attrgetter(key)(config)
        values = value if isinstance(value, list | tuple) else () if value is None else (value,)
        if any(it not in allowed for it in values):
            shown = list(value) if isinstance(value, tuple) else value
            raise UserError(f"{key}={shown} {'is not' if allowed.choices else 'must be'} {allowed}")
