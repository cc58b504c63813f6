"""The task seam: problems to sample responses for, and a grader for the responses."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

from rlzoo.source import is_ours

Message = Mapping[str, str]

FORMATS = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".csv": "csv"}
"""Suffix -> the format of a file of rows."""
ZIPPED = ".gz"
"""What may stand behind the suffix, but that of parquet."""


def format_of(path: Path) -> str | None:
    """The format of a file by its name; None if it is none that is read."""
    inner = Path(path.stem) if path.suffix == ZIPPED else path
    return None if path is not inner and inner.suffix == ".parquet" else FORMATS.get(inner.suffix)


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
    """`reward` is what training maximises; `correct` in [0, 1] is what evaluation reports.

    `rewards` are the parts that the reward is the weighted sum of, where there are several.
    """

    reward: float
    correct: float
    rewards: tuple[float, ...] = ()
    """NaN for that of a function which has no say in the row."""
    is_scored: bool = True
    """False where no function has a say, so that the row's group is no part of a training batch."""


class Response(str):
    """The text of a response, with what a reward from outside may ask for besides."""

    tokens: Sequence[int] = ()
    """Its token ids, all those behind the prompt, the one that ends it among them."""
    raw = ""
    """Its text with special tokens."""
    prompt = ""
    """The text of what the model read before it, with special tokens."""
    step, steps = 0, 0
    """The training step that it is sampled in, and how many there are."""

    @classmethod
    def of(cls, text: str, tokens: Sequence[int], raw: str, step: int, steps: int, prompt: str = "") -> Self:
        """The text with all of that."""
        response = cls(text)
        response.tokens, response.raw, response.prompt = tokens, raw, prompt
        response.step, response.steps = step, steps
        return response


Grader = Callable[[Problem, str], Grade]
"""Grades the text of one complete response. A picklable callable whose module imports no torch.

An empty response earns what a wrong one earns. One whose grading fails is graded as empty, and so is a truncated one
unless `task.grade_truncated` is set.
"""


@dataclass(frozen=True)
class ExactGrader:
    """1 for a response whose final answer is the gold one to its last character, otherwise `wrong_reward`."""

    final_answer: Callable[[Problem, str], str | None]
    wrong_reward: float = 0.0

    @property
    def instant(self) -> bool:
        """Whether it only compares characters: a user's function may do anything."""
        return is_ours(self.final_answer.__module__)

    def __call__(self, problem: Problem, response: str) -> Grade:
        correct = self.final_answer(problem, response) == problem.answer
        return Grade(1.0 if correct else self.wrong_reward, float(correct))


class Task(Protocol):
    """Problems in a fixed order, disjoint between the two splits."""

    @property
    def name(self) -> str:
        """The task's name."""
        ...

    @property
    def train(self) -> Sequence[Problem]:
        """Problems to train on."""
        ...

    @property
    def held_out(self) -> Sequence[Problem]:
        """Problems to evaluate on."""
        ...

    @property
    def grader(self) -> Grader:
        """What grades responses."""
        ...

    def final_answer(self, problem: Problem, response: str) -> str | None:
        """The answer that a response gives, for majority votes; None if it gives none."""
        ...


class DemonstratedTask(Task, Protocol):
    """A task that `rlzoo warmup` can make a model for."""

    @property
    def characters(self) -> str:
        """Every character that prompts and responses have."""
        ...

    def to_demonstrate(self, seed: int) -> Iterator[Problem]:
        """Endless random problems, none of them held out."""
        ...

    def demonstration(self, problem: Problem, rng: random.Random, slip_rate: float = 0.0) -> str:
        """A response as a model should write it, but for slips at this rate."""
        ...


@runtime_checkable
class DemonstratesTools(Protocol):
    """What a task has besides whose demonstrations call tools."""

    tools: ClassVar[tuple[str, ...]]
    """As `task.tools` names them."""
    pieces: ClassVar[tuple[str, ...]]
    """Texts around a call that are one token each."""

    def conversation(self, problem: Problem, rng: random.Random, slip_rate: float = 0.0) -> list[str]:
        """A demonstration turn by turn: the model's, and between each two of them what a tool answers."""
        ...


class KnowsCalls(Protocol):
    """What a task has besides that knows which calls of a tool ask for the right thing."""

    def is_right_call(self, call: str, answer: str) -> bool:
        """Whether a call, as it was written, asks for what the problem's answer is."""
        ...
