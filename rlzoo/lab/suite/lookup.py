"""The language of letters, which several experiments share: the right one is a fixed function of the last digit."""

import random
from dataclasses import dataclass

from rlzoo.lab.suite.micro import MicroTask
from rlzoo.tasks.base import Problem

LETTERS = "ABCDEFGHIJ"
TABLE = dict(zip("0123456789", random.Random(3).sample(LETTERS, 10), strict=True))
"""The right letter for each last digit."""


def right_letter(problem: Problem) -> str:
    """Of the prompt's last digit."""
    return TABLE[str(problem.prompt)[-2]]


@dataclass(frozen=True)
class Lookup(MicroTask):
    """One of ten letters. Slips of the demonstrations are any letter, the right one among them."""

    symbols = LETTERS

    def demonstration(self, problem: Problem, rng: random.Random, slip_rate: float = 0.0) -> str:
        """The right letter, or any at the slip rate."""
        return rng.choice(LETTERS) if rng.random() < slip_rate else right_letter(problem)

    @staticmethod
    def right(problem: Problem, response: str) -> bool:
        """The letter of the table and nothing more."""
        return response == right_letter(problem)
