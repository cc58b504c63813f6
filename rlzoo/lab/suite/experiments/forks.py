"""Tasks in which one token, or one route, decides: forks, guesses, a rare route, and fillers of any length."""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass

from rlzoo.lab.suite.measures import Trained, true_accuracy
from rlzoo.lab.suite.micro import MicroTask, coin
from rlzoo.tasks.base import Problem

FORCED = "abcdefghijklmnop"


FORKS = "0110"


RIGHT = "".join(FORCED[4 * i : 4 * i + 4] + fork for i, fork in enumerate(FORKS))


@dataclass(frozen=True)
class Forks(MicroTask):
    """Sixteen forced letters with four forks among them; right is one string."""

    sure: float = 0.6
    slip: float = 0.01
    symbols = FORCED

    def demonstration(self, problem: Problem, rng: random.Random, slip_rate: float = 0.0) -> str:
        """Forks right at the rate `sure`, other letters any at the rate `slip`."""
        return "".join(self._written(letter, rng) for letter in RIGHT)

    def _written(self, letter: str, rng: random.Random) -> str:
        if letter in "01":
            return letter if rng.random() < self.sure else "10"[int(letter)]
        return rng.choice(FORCED) if rng.random() < self.slip else letter

    @staticmethod
    def right(problem: Problem, response: str) -> bool:
        """No slip, and every fork right."""
        return response == RIGHT


STEPS = "(abcd)"


CHANCE = 1 / 8
"""That a guess is right."""


@dataclass(frozen=True)
class Guesses(MicroTask):
    """`(abcd)` is right; `h` and two letters are right by chance. `careful` is the share of steps."""

    careful: float = 0.1
    slip: float = 0.01
    letters = "stuvwxyz"
    symbols = STEPS + "h" + letters

    def demonstration(self, problem: Problem, rng: random.Random, slip_rate: float = 0.0) -> str:
        """Each letter of the steps is any other one at the rate `slip`."""
        if rng.random() < self.careful:
            return "".join(rng.choice(STEPS[1:-1]) if rng.random() < self.slip else letter for letter in STEPS)
        return "h" + self.guess(rng)

    def guess(self, rng: random.Random) -> str:
        """Two letters, each any of eight."""
        return "".join(rng.choices(self.letters, k=2))

    @staticmethod
    def right(problem: Problem, response: str) -> bool:
        """Steps without a slip, or a guess, by the coin."""
        return response == STEPS or (response.startswith("h") and coin("guess", problem.id, response) < CHANCE)


@dataclass(frozen=True)
class RareRight(MicroTask):
    """`ah` or `at`, right by a coin, or `b!`, always right."""

    rare: float = 0.01
    symbols = "abht!"

    def demonstration(self, problem: Problem, rng: random.Random, slip_rate: float = 0.0) -> str:
        """The rare route at its rate."""
        return "b!" if rng.random() < self.rare else "a" + rng.choice("ht")

    @staticmethod
    def right(problem: Problem, response: str) -> bool:
        """`b!` always; of the other two, the one that the problem's coin says."""
        return response == "b!" or response == "a" + ("h" if coin("rare", problem.id) < 0.5 else "t")


def share_of_the_rare_route(cell: Trained) -> Mapping[str, float]:
    """The mean share over all rollouts of training, and the share of right answers in the last five steps."""
    of_steps = [sum(text.startswith("b") for text in step.texts) / len(step.texts) for step in cell.rollouts]
    return {"rare": sum(of_steps) / len(of_steps), "accuracy": true_accuracy(cell, cell.rollouts[-5:])}


@dataclass(frozen=True)
class Filler(MicroTask):
    """`g....` is right, `w,,,,` is wrong; the filler goes on with probability `go_on`."""

    go_on: float = 0.875
    symbols = "gw.,"

    def demonstration(self, problem: Problem, rng: random.Random, slip_rate: float = 0.0) -> str:
        """Right half the time, and as long either way."""
        length = 0
        while rng.random() < self.go_on and length < 60:
            length += 1
        return rng.choice(("g" + "." * length, "w" + "," * length))

    @staticmethod
    def right(problem: Problem, response: str) -> bool:
        """The way of the dots, however long."""
        return response.startswith("g") and set(response[1:]) <= {"."}


def log_ratio_of_lengths(cell: Trained) -> Mapping[str, float]:
    """Of wrong answers to right ones, behind a first letter that is given; the share of right answers without it."""
    lengths = {
        way: cell.sample(
            8, [Problem(p.id + way, f"{p.prompt}{way}", "") for p in cell.trainer.experiment.held_out[:128]]
        )
        for way in "gw"
    }
    right, wrong = (float(lengths[way].rollouts.lengths.float().mean()) for way in "gw")
    return {
        "drift": math.log(wrong / right),
        "right_length": right,
        "wrong_length": wrong,
        "accuracy": true_accuracy(cell, cell.rollouts[-5:]),
    }


def accuracy_and_cut(cell: Trained) -> Mapping[str, float]:
    """The shares of right answers and of cut ones among answers to held-out problems, and their length."""
    end = cell.sample()
    rollouts = end.rollouts
    return {
        "accuracy": true_accuracy(cell, [end]),
        "cut": float(rollouts.truncated.float().mean()),
        "length": float(rollouts.lengths.float().mean()),
    }
