"""What the tasks of the suite share: prompts that are fresh numbers, so that nothing can be memorised."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import blake2b
from typing import ClassVar

from rlzoo.tasks.base import Grade, Grader, Problem
from rlzoo.tasks.text import is_held_out


def coin(*what: object) -> float:
    """A number in [0, 1) that only memorising could foresee, and that is always the same."""
    digest = blake2b("/".join(map(str, what)).encode(), digest_size=6).digest()
    return int.from_bytes(digest, "big") / 2**48


@dataclass(frozen=True)
class MicroTask:
    """Prompts are four digits and a colon. A subclass says which `symbols` it writes, and which responses are right.

    `flip` is the rate at which a response is judged wrongly, at random. The correctness that training sees is then as
    wrong as the reward. The truth is `right`.
    """

    flip: float = 0.0
    wrong_reward: float = 0.0

    symbols: ClassVar[str] = ""
    digits: ClassVar[int] = 4

    @property
    def name(self) -> str:
        """Of the class."""
        return type(self).__name__

    @property
    def characters(self) -> str:
        """All that prompts and responses have."""
        return "0123456789:" + self.symbols

    def demonstration(self, problem: Problem, rng: random.Random, slip_rate: float = 0.0) -> str:
        """A response as the starting policy writes it."""
        raise NotImplementedError

    @staticmethod
    def right(problem: Problem, response: str) -> bool:
        """Whether a response is right."""
        raise NotImplementedError

    def problem(self, number: int) -> Problem:
        """The problem of a number."""
        prompt = f"{number:0{self.digits}d}:"
        return Problem(prompt, prompt, "")

    @cached_property
    def train(self) -> Sequence[Problem]:
        """Seven eighths of them."""
        return self._side(held_out=False)

    @cached_property
    def held_out(self) -> Sequence[Problem]:
        """512 of the rest."""
        return self._side(held_out=True)[:512]

    def to_demonstrate(self, seed: int) -> Iterator[Problem]:
        """Training problems, drawn with replacement."""
        rng, problems = random.Random(seed), self.train
        while True:
            yield rng.choice(problems)

    def final_answer(self, problem: Problem, response: str) -> str:
        """All of it."""
        return response

    @property
    def grader(self) -> Grader:
        """Right is 1, wrong is `wrong_reward`."""
        return Grading(self.right, self.flip, self.wrong_reward)

    def _side(self, held_out: bool) -> list[Problem]:
        return [self.problem(number) for number in _numbers(self.digits, held_out)]


@cache
def _numbers(digits: int, held_out: bool) -> Sequence[int]:
    """Those of one side, shuffled."""
    numbers = list(range(10**digits))
    random.Random(7).shuffle(numbers)
    return [number for number in numbers if is_held_out(str(number)) == held_out]


@dataclass(frozen=True)
class Grading:
    """Grades by a function of a task, and turns some of the verdicts over."""

    right: Callable[[Problem, str], bool]
    flip: float
    wrong_reward: float

    instant: ClassVar[bool] = True

    def __call__(self, problem: Problem, response: str) -> Grade:
        judged = self.right(problem, response) != (coin("flip", problem.id, response) < self.flip)
        return Grade(1.0 if judged else self.wrong_reward, float(judged))
