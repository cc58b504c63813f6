"""What runs are measured on where that is not their own held-out problems: named problem sets, and all together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from rlzoo.config.decoding import Decoding

MACRO = "macro average"
"""All problem sets together, each counting the same."""


@dataclass(frozen=True)
class SetDecoding(Decoding):
    """A decoding with the problem set that it was evaluated on."""

    problem_set: str = ""

    @classmethod
    def of(cls, problem_set: str, decoding: Decoding) -> "SetDecoding":
        """A problem set with a decoding."""
        return cls(**{**vars(decoding), "problem_set": problem_set})

    @property
    def alone(self) -> Decoding:
        """Without the problem set."""
        return Decoding(**{name: value for name, value in vars(self).items() if name != "problem_set"})

    def __str__(self) -> str:
        return f"{self.problem_set}, {self.alone}"

    @property
    def slug(self) -> str:
        """For names of files."""
        return f"{self.problem_set}-{self.alone.slug}"


@dataclass(frozen=True)
class TablePlace:
    """What a table of another trainer's results says of where and how its values were measured."""

    problem_set: str = ""
    decoding: str = ""

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.problem_set, self.decoding or "the table's decoding")))


Place: TypeAlias = Decoding | TablePlace
"""What rows are measured on: a decoding, with the problem set where there are several."""


def set_of(place: Place) -> str:
    """The problem set of a place, "" where there is one alone."""
    return place.problem_set if isinstance(place, SetDecoding | TablePlace) else ""


def with_macro_averages(places: Sequence[Place]) -> dict[Place, list[Place]]:
    """What is shown, and what each is the average of: macro averages of several sets first, then each by itself."""
    of_macro: dict[Place, list[Place]] = {}
    for place in places:
        if isinstance(place, SetDecoding | TablePlace) and place.problem_set:
            of_macro.setdefault(replace(place, problem_set=MACRO), []).append(place)
    macros = {macro: parts for macro, parts in of_macro.items() if len(parts) > 1}
    return {**macros, **{place: [place] for place in places}}
