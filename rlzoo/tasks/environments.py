"""Environments: what answers the policy between its turns.

An `Environment` has `reset`, which begins an episode for each row, and `step`, which answers turns of rows; the loop
over turns in `rlzoo.rollout.sampler` needs no more of it. There are two. Functions of the user answer calls and keep
nothing (`tools`). Episodes keep a state and make the rewards, each in a process of its own (`episodes`),
as instances of a class of the user (`environment_class`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, ClassVar, Protocol

from rlzoo.tasks.base import Problem

if TYPE_CHECKING:
    from rlzoo.tasks.grading import Graded


@dataclass(frozen=True)
class Answer:
    """A message to the policy: the answer to a call, or to a turn."""

    text: str
    is_error: bool = False
    """Whether the call was malformed, or its tool unknown, raised, or took too long."""
    role: str = "tool"
    """The role of the message: `tool` for a call; an environment may also speak as `user`."""


@dataclass(frozen=True)
class Turn:
    """What the policy wrote in one turn of a row."""

    text: str
    number: int = 1
    """Which turn of the row it is, from 1."""
    is_truncated: bool = False
    is_last: bool = False
    """Whether no turn can follow, so that its calls are not made."""


@dataclass(frozen=True)
class Step:
    """What an environment gives at the beginning of an episode, and after a turn."""

    answers: Sequence[Answer] = ()
    """What the policy reads next. Without answers the row ends."""
    reward: float = 0.0
    """What the turn earned."""
    state: str | None = None
    """A key of the state that the next turn begins in; None if that is what the policy read last."""
    is_over: bool = False
    """Whether the episode is over: its answers are counted, but the policy does not read them."""


@dataclass(frozen=True)
class Start:
    """What an episode begins with."""

    problem: Problem
    group: int
    """The number of the problem among those of all processes."""
    row: int
    """The number of the row among those of all processes."""


class Environment(Protocol):
    """Answers turns of rows, which are numbered from 0 at each reset. Nothing that it runs ends a training run."""

    is_stateful: ClassVar[bool]
    """Whether rows have episodes with a state. All rows take their turns together then."""

    def reset(self, starts: Sequence[Start], seed: int) -> list[Step]:
        """Begins an episode for each row, in place of those before. Its answers end the prompt of the row."""
        ...

    def step(self, turns: Mapping[int, Turn]) -> dict[int, Step]:
        """Answers the turn of each of some rows."""
        ...

    def grade(self, texts: Sequence[str]) -> "list[Graded] | None":
        """Ends the episodes and grades each row, with the text of its last turn; None if the task's grader does."""
        ...


def seed_of(seed: int, purpose: object) -> int:
    """Derives the seed of something that is drawn besides the first turn, which has `seed` itself."""
    return int.from_bytes(blake2b(f"{seed}/{purpose}".encode(), digest_size=6).digest(), "big")
