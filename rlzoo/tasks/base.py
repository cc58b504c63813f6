"""The task seam: problems to sample responses for, and a grader for the responses."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Message = Mapping[str, str]


@dataclass(frozen=True)
class Problem:
    """One question, picklable, so that a grader can work on it in another process.

    `prompt` is plain text, or chat messages that the tokenizer's chat template renders.
    `data` is whatever the task's own grader needs beyond the gold `answer`.
    """

    id: str
    prompt: str | Sequence[Message]
    answer: str
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Grade:
    """`reward` is what training maximises; `correct` in [0, 1] is what evaluation reports."""

    reward: float
    correct: float


Grader = Callable[[Problem, str], Grade]
"""Grades the text of one complete response. A picklable callable whose module imports no torch."""


class Task(Protocol):
    """Problems in a fixed order, disjoint between the two splits."""

    name: str
    train: Sequence[Problem]
    held_out: Sequence[Problem]
    grader: Grader
