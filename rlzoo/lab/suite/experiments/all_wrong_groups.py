"""All-wrong groups: what is learnt where most groups have no right answer?

Two letters are to be the one of the prompt's last digit. The policy writes both right once in fifty responses, so that
five groups of eight in six are wrong as a whole and teach GRPO nothing.

Start: 2 % right, 84 % of groups all wrong. Tuning (seeds 0 to 2): base 0.53, a reward for each letter 0.87, a
difference of 0.338 with a deviation of 0.085.
"""

import random
from dataclasses import dataclass
from typing import ClassVar

from rlzoo.lab.suite.experiment import Arm, Claim, Contrast, Experiment, Start
from rlzoo.lab.suite.lookup import Lookup, right_letter
from rlzoo.lab.suite.measures import accuracy_at_the_end
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


PARTIAL = {"task.options.partial": True}
EXPERIMENT = Experiment(
    name="all_wrong_groups",
    failure_mode="dead_groups",
    question="What is learnt where most groups have no right answer?",
    task=Twice,
    start=Start(slip_rate=0.9, clean_fraction=0.5),
    settings={"rollout.max_response_tokens": 5, "train.steps": 30, "train.learning_rate": 2e-3},
    arms={
        "base": Arm("grpo-kl"),
        "agpo": Arm("grpo-kl+agpo"),
        "maxrl": Arm("grpo-kl+maxrl"),
        "wrong answers only": Arm("grpo-kl+answer_filter(keep=wrong)"),
        "a reward for each letter": Arm("grpo-kl", PARTIAL),
        "a reward for each letter, agpo": Arm("grpo-kl+agpo", PARTIAL),
    },
    score="accuracy",
    unit="share of right answers to held-out problems",
    higher_is_better=True,
    measure=accuracy_at_the_end,
    positive=Contrast("a reward for each letter", higher=True),
    negative=("a reward for each letter, agpo", "a reward for each letter"),
    claims=[
        Claim(
            "agpo",
            higher=True,
            text="Pushing down groups that are wrong as a whole finds right answers sooner.",
            paper="arXiv:2503.15952",
            published="better than GRPO on mathematics; no figure for such groups alone",
            smallest=0.05,
        ),
        Claim(
            "maxrl",
            higher=True,
            text="Dividing by the group's success learns hard problems sooner.",
            paper="arXiv:2602.02710",
            published="pass@1 no worse than GRPO and pass@k better, up to 20 times as efficient at test time",
            smallest=0.05,
        ),
    ],
)
