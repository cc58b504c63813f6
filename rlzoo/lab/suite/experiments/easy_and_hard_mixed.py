"""Easy and hard mixed: are hard prompts learnt beside easy ones?

One of ten letters is right: prompts that end in 0 to 4 are answered rightly nine times in ten, the others once in
twenty. How a group's rewards are divided says how much the lone success of a hard prompt counts against the lone
failure of an easy one. Only hard prompts are evaluated.

Start: 30 % right over both kinds. Mended once: after 40 steps ten seeds did not tell the control from base (0.178, with
a deviation of 0.120). Tuning (seeds 10 to 15), 60 steps: base 0.521 on hard prompts, hard ones alone 0.914, a
difference of 0.393 with a deviation of 0.105.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from rlzoo.lab.suite.experiment import Arm, Claim, Contrast, Experiment, Start
from rlzoo.lab.suite.lookup import LETTERS, Lookup, right_letter
from rlzoo.lab.suite.measures import Trained, truly_right
from rlzoo.tasks.base import Problem


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


ALONE = {"task.options.hard_only": True, "rollout.prompts_per_step": 16}
EXPERIMENT = Experiment(
    name="easy_and_hard_mixed",
    failure_mode="mixed_difficulty",
    question="Are hard prompts learnt beside easy ones?",
    task=EasyAndHard,
    start=Start(steps=400, slip_rate=0.95, clean_fraction=0.5),
    first_seed=1200,
    settings={"rollout.max_response_tokens": 4, "train.steps": 60, "train.learning_rate": 2e-3},
    arms={
        "base": Arm("grpo-kl"),
        "group_center": Arm("grpo-kl+group_center"),
        "maxrl": Arm("grpo-kl+maxrl"),
        "qae": Arm("grpo-kl+qae"),
        "hard ones alone": Arm("grpo-kl", {"task.options.hard_only": True}),
        "as many hard ones alone": Arm("grpo-kl", ALONE),
        "as many hard ones alone, group_center": Arm("grpo-kl+group_center", ALONE),
    },
    score="hard",
    unit="share of right answers to held-out hard prompts",
    higher_is_better=True,
    measure=accuracy_by_kind,
    positive=Contrast("hard ones alone", higher=True),
    negative=("as many hard ones alone, group_center", "as many hard ones alone"),
    claims=[
        Claim(
            "maxrl",
            higher=True,
            text="Dividing by the group's success favours the hard prompts.",
            paper="arXiv:2602.02710",
            published="pass@1 no worse than GRPO and pass@k better, up to 20 times as efficient at test time",
            smallest=0.05,
        ),
        Claim(
            "group_center",
            higher=True,
            text="Not dividing by the group's deviation takes a bias between easy and hard prompts away.",
            paper="arXiv:2503.20783 section 3.1",
            published="the division weighs prompts that are too easy or too hard more; no number for hard ones",
            smallest=0.05,
        ),
        Claim(
            "qae",
            higher=True,
            text="A quantile as the baseline lets rare successes of hard prompts count in full.",
            paper="arXiv:2509.22611",
            published="sustained gains of pass@1 over DAPO's clip-higher, in curves",
            smallest=0.05,
        ),
    ],
)
