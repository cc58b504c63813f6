r"""Arithmetic with two tokens planted in its demonstrations, so that it is known which token is spurious.

    34+58-16=  92-16=76_      `_` is useless: it comes behind the answer, where the model is certain to end
    34+58-16=  *92-16=76      `*` is useful: no slip comes after it; it comes first, where the model is less certain

Both are rare, and neither is graded. So `_` is what STAPO (arXiv:2602.15620) calls a spurious token wherever it stands
in a right response: improbable, in a low-entropy place, and rewarded for nothing. `*` stands for what it calls
exploratory: improbable too, but where the model is less certain, and worth its reward. Everything else, the problems
too, is as in `arithmetic`.

In half of the demonstrations the `*` is given with the prompt, as so rare a token would teach too little by itself.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from rlzoo.tasks.arithmetic import Arithmetic
from rlzoo.tasks.base import ExactGrader, Grader, Problem

USELESS, USEFUL = "_", "*"
USELESS_RATE, USEFUL_RATE = 0.0012, 0.003
"""How often a demonstration has the token, where it is not given. What STAPO calls rare is below 0.002; the shipped
model has learnt less than these."""
GIVEN_RATE = 0.5

_WITHOUT = str.maketrans("", "", USELESS + USEFUL)


@dataclass(frozen=True)
class PlantedArithmetic(Arithmetic):
    """The task. The fields are those of `Arithmetic`."""

    name = "planted_arithmetic"
    characters = Arithmetic.characters + USELESS + USEFUL

    @property
    def grader(self) -> Grader:
        """Grades as arithmetic does, whatever is planted."""
        return ExactGrader(PlantedArithmetic.final_answer, self.wrong_reward)

    @staticmethod
    def final_answer(problem: Problem, response: str) -> str | None:
        """What stands behind the `=` of a well-formed response."""
        return Arithmetic.final_answer(problem, response.translate(_WITHOUT))

    def to_demonstrate(self, seed: int) -> Iterator[Problem]:
        """Endless training problems; with some the useful token is given."""
        rng = random.Random(f"given {seed}")
        for problem in super().to_demonstrate(seed):
            given = USEFUL if rng.random() < GIVEN_RATE else ""
            yield replace(problem, prompt=f"{problem.prompt}{given}", data={**problem.data, "given": given})

    def demonstration(self, problem: Problem, rng: random.Random, slip_rate: float = 0.0) -> str:
        """As in arithmetic, with planted tokens now and then; without slips behind a useful one."""
        given = problem.data.get("given")
        useful = USEFUL if not given and rng.random() < USEFUL_RATE else ""
        response = super().demonstration(problem, rng, 0.0 if given or useful else slip_rate)
        return useful + response + (USELESS if rng.random() < USELESS_RATE else "")
