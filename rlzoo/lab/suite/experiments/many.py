"""A task with several right answers. A good objective keeps all of them."""

import math
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from rlzoo.lab.suite.lookup import LETTERS
from rlzoo.lab.suite.measures import Trained, pass_at, truly_right
from rlzoo.lab.suite.micro import MicroTask
from rlzoo.tasks.base import Problem

RIGHT = LETTERS[:5]


@dataclass(frozen=True)
class Many(MicroTask):
    """One of ten letters, of which five are right; slips are any."""

    flip: float = 0.2
    symbols = LETTERS

    def demonstration(self, problem: Problem, rng: random.Random, slip_rate: float = 0.0) -> str:
        """Any right letter, or any at the slip rate."""
        return rng.choice(LETTERS if rng.random() < slip_rate else RIGHT)

    @staticmethod
    def right(problem: Problem, response: str) -> bool:
        """One of the five."""
        return len(response) == 1 and response in RIGHT


def variety_of_right_answers(cell: Trained) -> Mapping[str, float]:
    """exp(entropy of the right letters) over five, from the last ten steps; the share of right answers; pass@8."""
    steps = cell.rollouts[-10:]
    answers = [text for step in steps for text, right in zip(step.texts, truly_right(cell, step), strict=True) if right]
    shares = [count / len(answers) for count in Counter(answers).values()]
    right = truly_right(cell, cell.sample(16))
    return {
        "variety": math.exp(-sum(share * math.log(share) for share in shares)) / len(RIGHT),
        "accuracy": sum(right) / len(right),
        "pass@8": pass_at(8, right, 16),
    }
