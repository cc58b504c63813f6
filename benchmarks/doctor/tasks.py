"""Tasks that neither the suite nor any threshold knows: for the last measurement."""

import random
from dataclasses import dataclass, replace
from itertools import pairwise

from rlzoo.lab.suite.experiment import Arm, Experiment, Start, load_experiment
from rlzoo.lab.suite.micro import MicroTask
from rlzoo.tasks.base import Problem


def last_digit(problem: Problem) -> int:
    """Of the prompt, `0123:`."""
    return int(str(problem.prompt)[-2])


@dataclass(frozen=True)
class Climb(MicroTask):
    """Five letters that go on from the one that the prompt's last digit names: `cdefg` for 2."""

    symbols = "abcdefghijklmn"

    def demonstration(self, problem: Problem, rng: random.Random, slip_rate: float = 0.0) -> str:
        """Each letter any at the slip rate."""
        letters = self.symbols[last_digit(problem) :][:5]
        return "".join(rng.choice(self.symbols) if rng.random() < slip_rate else letter for letter in letters)

    @staticmethod
    def right(problem: Problem, response: str) -> bool:
        """All five."""
        return response == Climb.symbols[last_digit(problem) :][:5]


@dataclass(frozen=True)
class Brackets(MicroTask):
    """Opening brackets, up to six, and as many closing ones; any number is right."""

    symbols = "()"

    def demonstration(self, problem: Problem, rng: random.Random, slip_rate: float = 0.0) -> str:
        """One too many or too few at the slip rate."""
        opened = rng.randint(2, 6)
        closed = opened + (rng.choice((-1, 1)) if rng.random() < slip_rate else 0)
        return "(" * opened + ")" * closed

    @staticmethod
    def right(problem: Problem, response: str) -> bool:
        """Balanced, and not empty."""
        half = len(response) // 2
        return half > 0 and response == "(" * half + ")" * half


@dataclass(frozen=True)
class Increasing(MicroTask):
    """Four digits that rise: many answers are right."""

    symbols = "x"

    def demonstration(self, problem: Problem, rng: random.Random, slip_rate: float = 0.0) -> str:
        """Any four digits at the slip rate."""
        drawn = [rng.choice("0123456789") for _ in range(4)]
        return "".join(drawn) if rng.random() < slip_rate else "".join(sorted(rng.sample("0123456789", 4)))

    @staticmethod
    def right(problem: Problem, response: str) -> bool:
        """Each digit above the one before."""
        is_number = len(response) == 4 and response.isdigit()
        return is_number and all(a < b for a, b in pairwise(response))


def _experiment(task: type, start: Start, **settings: object) -> Experiment:
    keys = {"rollout.max_response_tokens": 16, "train.learning_rate": 5e-4, **settings}
    return replace(
        load_experiment("forking_tokens"),
        name=task.__name__.lower(),
        task=task,
        start=start,
        settings=keys,
        arms={"base": Arm("grpo-kl")},
    )


CLIMB = _experiment(Climb, Start(steps=400, slip_rate=0.2))
BRACKETS = _experiment(Brackets, Start(steps=400, slip_rate=0.6), **{"train.learning_rate": 2e-4})
INCREASING = _experiment(Increasing, Start(steps=400, slip_rate=0.5))
