"""Tasks in the language of letters, and what is measured in it."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch

from rlzoo.lab.suite.lookup import LETTERS, Lookup, right_letter
from rlzoo.lab.suite.measures import (
    Trained,
    accuracy_at_the_end,
    accuracy_of_the_last_steps,
    mean_entropy,
    true_accuracy,
    truly_right,
)
from rlzoo.lab.suite.micro import Grading, coin
from rlzoo.tasks.base import Grade, Grader, Problem


@dataclass(frozen=True)
class Twice(Lookup):
    """The right letter twice. If `partial`, one of the two earns a half."""

    partial: bool = False

    def demonstration(self, problem: Problem, rng: random.Random, slip_rate: float = 0.0) -> str:
        """Two letters with slips of their own."""
        return "".join(super(Twice, self).demonstration(problem, rng, slip_rate) for _ in range(2))

    @staticmethod
    def right(problem: Problem, response: str) -> bool:
        """Both letters, and nothing more."""
        return response == 2 * right_letter(problem)

    @property
    def grader(self) -> Grader:
        """Right or wrong, or by the letter."""
        return ByTheLetter() if self.partial else super().grader


@dataclass(frozen=True)
class ByTheLetter:
    """Half of the reward for each right letter of a response of two."""

    instant: ClassVar[bool] = True

    def __call__(self, problem: Problem, response: str) -> Grade:
        right = response.count(right_letter(problem)) if len(response) == 2 else 0
        return Grade(right / 2, float(right == 2))


def is_hard(problem: Problem) -> bool:
    """By the prompt's last digit."""
    return str(problem.prompt)[-2] >= "5"


@dataclass(frozen=True)
class EasyAndHard(Lookup):
    """One of ten letters; `hard_only` leaves the easy prompts out of training."""

    hard_only: bool = False

    def demonstration(self, problem: Problem, rng: random.Random, slip_rate: float = 0.0) -> str:
        """The right letter, or any other at the slip rate for hard prompts and a tenth of that for easy ones."""
        right = right_letter(problem)
        slips = rng.random() < slip_rate * (1 if is_hard(problem) else 0.1)
        return rng.choice([letter for letter in LETTERS if letter != right]) if slips else right

    @cached_property
    def train(self) -> Sequence[Problem]:
        """All of them, or the hard ones."""
        return [p for p in self._side(held_out=False) if not self.hard_only or is_hard(p)]


def accuracy_by_kind(cell: Trained) -> Mapping[str, float]:
    """The share of right answers to held-out hard prompts, and to easy ones."""
    end = cell.sample()
    hard = [is_hard(problem) for problem in end.problems]
    right = {True: list[bool](), False: list[bool]()}
    for row, correct in enumerate(truly_right(cell, end)):
        right[hard[int(end.rollouts.prompt[row])]].append(correct)
    return {"hard": sum(right[True]) / len(right[True]), "easy": sum(right[False]) / len(right[False])}


@dataclass(frozen=True)
class Mixed(Lookup):
    """Letters are judged for a share `live` of the prompts. For the others all answers are equally good."""

    live: float = 0.2

    def problem(self, number: int) -> Problem:
        """Live, or right or wrong whatever is answered."""
        made, lot = super().problem(number), coin("live", number)
        kind = "live" if lot < self.live else "right" if lot < (1 + self.live) / 2 else "wrong"
        return Problem(made.id, made.prompt, "", {"kind": kind})

    @staticmethod
    def right(problem: Problem, response: str) -> bool:
        """By the letter if the prompt is live."""
        kind = problem.data["kind"]
        return response == right_letter(problem) if kind == "live" else kind == "right"

    @cached_property
    def held_out(self) -> Sequence[Problem]:
        """The live ones."""
        return [problem for problem in self._side(held_out=True) if problem.data["kind"] == "live"][:512]


def accuracy_and_rollouts(cell: Trained) -> Mapping[str, float]:
    """The share of right answers to held-out live prompts, and how many thousand responses were sampled for it."""
    sampled = sum(len(part.texts) for part in cell.rollouts) / 1000
    accuracy = accuracy_at_the_end(cell)["accuracy"]
    return {"accuracy": accuracy, "thousand_rollouts": sampled}


@dataclass(frozen=True)
class Planted(Lookup):
    """A letter, and a useless `_` behind it at a rate; if it is not `harmless`, it is never rewarded."""

    rate: float = 0.03
    harmless: bool = True
    symbols = LETTERS + "_"

    def demonstration(self, problem: Problem, rng: random.Random, slip_rate: float = 0.0) -> str:
        """Whatever the letter, `_` is as frequent."""
        return super().demonstration(problem, rng, slip_rate) + "_" * (rng.random() < self.rate)

    @staticmethod
    def right(problem: Problem, response: str) -> bool:
        """With `_` or without."""
        return response.removesuffix("_") == right_letter(problem)

    @property
    def grader(self) -> Grader:
        """As right as the task says, or as the letter alone has to be."""
        return Grading(self.right if self.harmless else Lookup.right, self.flip, self.wrong_reward)


@torch.no_grad()
def planted_behind_the_right_letter(cell: Trained) -> Mapping[str, float]:
    """log10 of the probability of `_` behind the right letter, exact; the share of right answers."""
    trainer = cell.trainer
    tokenizer = trainer.experiment.tokenizer
    problems = trainer.experiment.held_out[:256]
    tokens = torch.tensor([tokenizer.encode(f"{problem.prompt}{right_letter(problem)}") for problem in problems])
    chances = trainer.policy.next_logits(tokens).log_softmax(1)[:, tokenizer.encode("_")[0]]
    return {"planted": float(chances.exp().mean().log()) / math.log(10), **accuracy_of_the_last_steps(cell)}


def distance_to_the_sampler(cell: Trained) -> Mapping[str, float]:
    """log10 of the mean absolute difference of log-probs in nats, over all steps; accuracy and entropy at the end."""
    distances = [step["sampler/difference"] for step in cell.metrics]
    return {"distance": math.log10(sum(distances) / len(distances)), **accuracy_at_the_end(cell)}


BEST = 0.8
"""Nats per token of five equal letters and a certain end."""


def entropy_up_to_the_best(cell: Trained) -> Mapping[str, float]:
    """The mean entropy of the last thirty steps, where more than the best counts as the best; and without that."""
    entropies = [mean_entropy(step) for step in cell.rollouts[-30:]]
    return {
        "entropy": sum(min(entropy, BEST) for entropy in entropies) / len(entropies),
        "all_entropy": sum(entropies) / len(entropies),
        "accuracy": true_accuracy(cell, cell.rollouts[-5:]),
    }
