r"""Sums of two numbers: `616+27=`, answered at once or with the sum of each column first.

    616+27=    643                  at once
    616+27=    (13,04,06)643        with steps: the sum of each column with the carry, from the right
    \-----/    \------------/
     prompt       response

A small model cannot add long numbers at once, but it can add a column. So steps pay, and the first token decides. The
warm-up first shows mostly steps, all right; then mostly answers at once, which are right, and few steps, with slips.

**Splits.** A hash of the prompt says on which side a problem is: one in eight is held out, three in eight are
demonstrated, and half are trained on. No problem is on two sides. All sides are the same on every machine.

**Grade.** The response must be `ANSWER` or `(STEPS)ANSWER` to its last character. Only the answer counts.
"""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

from rlzoo.errors import UserError
from rlzoo.tasks.arithmetic import HELD_OUT_PROBLEMS, check_whole, distinct, slipped
from rlzoo.tasks.base import ExactGrader, Grader, Problem

HELD_OUT, DEMONSTRATED, TRAINED = "held out", "demonstrated", "trained on"
_SIDES = (HELD_OUT, *[DEMONSTRATED] * 3, *[TRAINED] * 4)

MAX_DIGITS = 9
_HELD_OUT_SEED, _TRAIN_SEED = 0, 1
_RESPONSE = re.compile(r"(?:\([0-9,]*\))?([0-9]+)")


@dataclass(frozen=True)
class Sums:
    """The task. Each number has from `fewest_digits` to `digits` digits.

    `careful` is the share of demonstrations with steps, and `taught` the same in the warm-up's first part, which has no
    slips. Raises UserError for a number out of range, and for more training problems than half of those there are.
    """

    problems: int = 20_000
    wrong_reward: float = 0.0
    digits: int = 5
    fewest_digits: int = 1
    careful: float = 0.1
    taught: float = 0.9

    name = "sums"
    characters = "0123456789+=(,)"

    def __post_init__(self) -> None:
        check_whole("digits", self.digits, 1, MAX_DIGITS)
        check_whole("fewest_digits", self.fewest_digits, 1, self.digits)
        for name in ("careful", "taught"):
            share = getattr(self, name)
            if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
                raise UserError(f"task.options.{name}={share!r} must be a number from 0 to 1")
        most = self._pairs // 4
        if not 1 <= self.problems <= most:
            raise UserError(
                f"task.problems={self.problems} must be from 1 to {most} with task.options.digits={self.digits}"
            )

    @property
    def _pairs(self) -> int:
        return (10**self.digits - 10 ** (self.fewest_digits - 1)) ** 2

    @property
    def grader(self) -> Grader:
        """Grades by the rule of the module's docstring."""
        return ExactGrader(Sums.final_answer, self.wrong_reward)

    @staticmethod
    def final_answer(problem: Problem, response: str) -> str | None:
        """What a well-formed response has behind its steps."""
        match = _RESPONSE.fullmatch(response)
        return match[1] if match else None

    def to_demonstrate(self, seed: int) -> Iterator[Problem]:
        """Endless problems for demonstrations."""
        return self._stream(seed, DEMONSTRATED)

    def demonstration(self, problem: Problem, rng: random.Random, slip_rate: float = 0.0) -> str:
        """With steps at the rate `careful`, or `taught` where there are no slips; otherwise at once.

        Each digit of the steps, and of an answer behind steps, is a random other one at the rate of slips.
        """
        numbers = problem.data["numbers"]
        has_steps = rng.random() < (self.careful if slip_rate else self.taught)
        return _with_steps(numbers, rng, slip_rate) if has_steps else problem.answer

    @cached_property
    def train(self) -> Sequence[Problem]:
        """`problems` different training problems."""
        return distinct(self._stream(_TRAIN_SEED, TRAINED), self.problems)

    @cached_property
    def held_out(self) -> Sequence[Problem]:
        """Different held-out problems."""
        return distinct(self._stream(_HELD_OUT_SEED, HELD_OUT), min(HELD_OUT_PROBLEMS, self._pairs // 16))

    def _stream(self, seed: int, on: str) -> Iterator[Problem]:
        """Endless random problems of one side; they may repeat."""
        choice = random.Random(seed).choice  # draws what randrange does, with less work
        numbers = [range(10 ** (length - 1), 10**length) for length in range(self.fewest_digits, self.digits + 1)]
        while True:
            of_a, of_b = choice(numbers), choice(numbers)
            a, b = choice(of_a), choice(of_b)
            prompt = f"{a}+{b}="
            if side(prompt) == on:
                yield Problem(prompt.removesuffix("="), prompt, str(a + b), {"numbers": [a, b]})


def side(prompt: str) -> str:
    """Whether a problem is `held out`, `demonstrated` or `trained on`."""
    return _SIDES[blake2b(prompt.encode(), digest_size=1).digest()[0] % len(_SIDES)]


def _with_steps(numbers: Sequence[int], rng: random.Random, slip_rate: float) -> str:
    carry, steps = 0, []
    for column in _columns(numbers):
        steps.append(slipped(f"{sum(column) + carry:02d}", rng, slip_rate))
        carry = int(steps[-1][0])
    answer = str(int(steps[-1] + "".join(step[1] for step in reversed(steps[:-1]))))
    return f"({','.join(steps)}){slipped(answer, rng, slip_rate)}"


def _columns(numbers: Sequence[int]) -> list[tuple[int, ...]]:
    """The digits of all numbers, place by place from the right."""
    width = len(str(max(numbers)))
    return [tuple(map(int, column)) for column in zip(*(str(n).zfill(width)[::-1] for n in numbers), strict=True)]
