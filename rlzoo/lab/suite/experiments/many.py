"""A task with several right answers. A good objective keeps all of them."""

import math
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from rlzoo.lab.suite.lookup import LETTERS
from rlzoo.lab.suite.measures import Trained, mean_entropy, pass_at, truly_right
from rlzoo.lab.suite.micro import MicroTask
from rlzoo.tasks.base import Problem

RIGHT = LETTERS[:5]


@dataclass(frozen=True)
class Many(MicroTask):
    """One of ten letters. Five are right; slips are any."""

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


USELESS = "_"


@dataclass(frozen=True)
class ManyPlanted(Many):
    """Right letters as in `Many`; a useless `_` behind any letter at a rate, which no reward depends on."""

    rate: float = 0.02
    symbols = LETTERS + USELESS

    def demonstration(self, problem: Problem, rng: random.Random, slip_rate: float = 0.0) -> str:
        """Whatever the letter, `_` is as frequent."""
        return super().demonstration(problem, rng, slip_rate) + USELESS * (rng.random() < self.rate)

    @staticmethod
    def right(problem: Problem, response: str) -> bool:
        """With `_` or without."""
        letter = response.removesuffix(USELESS)
        return len(letter) == 1 and letter in RIGHT


BAND = math.log(len(RIGHT)) / 2
"""Nats per token of five equal letters and a certain end."""
SAMPLES = 16
"""Answers to each of `PROBLEMS` held-out prompts."""
PROBLEMS = 128


def late_training(cell: Trained) -> Mapping[str, float]:
    """What is left of five right answers late in training.

    `entropy` and `off_band`, its distance from `BAND`, are means of the last thirty steps. The others are of answers of
    the policy at the end to held-out prompts: by the truth, how many are right, whether fewer than half are (`dead`),
    how various the right ones are over all prompts, and how many of the five are found in 16 answers to one prompt.
    """
    late = cell.rollouts[-30:]
    entropies = [mean_entropy(step) for step in late]
    end = cell.sample(SAMPLES, cell.trainer.experiment.held_out[:PROBLEMS])
    right = truly_right(cell, end)
    accuracy = sum(right) / len(right)
    letters = [text.removesuffix(USELESS) if is_right else "" for text, is_right in zip(end.texts, right, strict=True)]
    counts = Counter(filter(None, letters))
    shares = [count / counts.total() for count in counts.values()]
    found = [len({*letters[first : first + SAMPLES]} - {""}) for first in range(0, len(letters), SAMPLES)]
    texts = [text for step in late for text in step.texts]
    return {
        "entropy": sum(entropies) / len(entropies),
        "off_band": sum(abs(entropy - BAND) for entropy in entropies) / len(entropies),
        "accuracy": accuracy,
        "dead": float(accuracy < 0.5),
        "variety": math.exp(-sum(share * math.log(share) for share in shares)) / len(RIGHT),
        "found": sum(found) / len(found) / len(RIGHT),
        "pass@16": pass_at(SAMPLES, right, SAMPLES),
        "useless": sum(USELESS in text for text in texts) / len(texts),
    }
