r"""Procedural arithmetic: `a+b-c=`, solved in one intermediate step.

    34+58-16=92-16=76
    \------/ \-----/
     prompt  response

**Splits.** A hash of the prompt says whether a problem is held out, one in eight is, so no problem is ever on both
sides, whichever and however many are drawn. Both splits are the same on every machine.

**Grade.** The response must be `STEP=ANSWER` to its last character, and only the answer counts: the model is free to
find a way of its own to it.
"""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from rlzoo.errors import UserError
from rlzoo.tasks.base import ExactGrader, Grader, Problem
from rlzoo.tasks.text import is_held_out

HELD_OUT_PROBLEMS = 2048
"""Held-out problems at most; an evaluation takes the first of them."""

_HELD_OUT_SEED, _TRAIN_SEED = 0, 1
MAX_DIGITS = 6
_RESPONSE = re.compile(r"[0-9]+-[0-9]+=(-?[0-9]+)")


@dataclass(frozen=True)
class Arithmetic:
    """The task. `digits` is the length of the longest a, b and c; the answer is never negative.

    Raises UserError for a number out of range, and for more training problems than half of those there are.
    """

    problems: int = 20_000
    wrong_reward: float = 0.0
    digits: int = 2

    name = "arithmetic"
    characters = "0123456789+-="

    def __post_init__(self) -> None:
        check_whole("digits", self.digits, 1, MAX_DIGITS)
        most = 10 ** (3 * self.digits) // 4
        if not 1 <= self.problems <= most:
            raise UserError(
                f"task.problems={self.problems} must be from 1 to {most} with task.options.digits={self.digits}"
            )

    @property
    def grader(self) -> Grader:
        """Grades by the rule of the module's docstring."""
        return ExactGrader(Arithmetic.final_answer, self.wrong_reward)

    @staticmethod
    def final_answer(problem: Problem, response: str) -> str | None:
        """What stands behind the `=` of a well-formed response."""
        match = _RESPONSE.fullmatch(response)
        return match[1] if match else None

    def to_demonstrate(self, seed: int) -> Iterator[Problem]:
        """Endless training problems."""
        return stream(self.digits, seed, held_out=False)

    def demonstration(self, problem: Problem, rng: random.Random, slip_rate: float = 0.0) -> str:
        """Each digit is a random other one at this rate; the rest goes on from what is written."""
        a, b, c = (problem.data[name] for name in "abc")
        step, minuend = slipped(str(a + b), rng, slip_rate), slipped(str(c), rng, slip_rate)
        return f"{step}-{minuend}={slipped(str(int(step) - int(minuend)), rng, slip_rate)}"

    @cached_property
    def train(self) -> Sequence[Problem]:
        """`problems` different training problems."""
        return distinct(stream(self.digits, _TRAIN_SEED, held_out=False), self.problems)

    @cached_property
    def held_out(self) -> Sequence[Problem]:
        """Different held-out problems."""
        count = min(HELD_OUT_PROBLEMS, 10 ** (3 * self.digits) // 16)
        return distinct(stream(self.digits, _HELD_OUT_SEED, held_out=True), count)


def check_whole(name: str, value: object, least: int, most: int) -> None:
    """Raises UserError for an option that is no whole number of this range."""
    if type(value) is not int or not least <= value <= most:
        raise UserError(f"task.options.{name}={value!r} must be a whole number from {least} to {most}")


def stream(digits: int, seed: int, held_out: bool) -> Iterator[Problem]:
    """Endless random problems of one side; they may repeat."""
    rng = random.Random(seed)
    while True:
        a, b, c = (rng.randrange(10**digits) for _ in range(3))
        prompt = f"{a}+{b}-{c}="
        if c <= a + b and is_held_out(prompt) == held_out:
            yield Problem(prompt.removesuffix("="), prompt, str(a + b - c), {"a": a, "b": b, "c": c})


def slipped(number: str, rng: random.Random, rate: float) -> str:
    """With each digit a random other one at this rate."""
    return "".join(_other(d, rng) if d.isdigit() and rng.random() < rate else d for d in number)


def _other(digit: str, rng: random.Random) -> str:
    return str((int(digit) + rng.randrange(1, 10)) % 10)


def distinct(problems: Iterator[Problem], count: int) -> list[Problem]:
    """The first `count` different problems of an endless stream; fewer if it hardly has others."""
    seen: dict[str, Problem] = {}
    for problem in islice(problems, 100 * count + 1000):
        seen.setdefault(problem.id, problem)
        if len(seen) == count:
            break
    return list(seen.values())
