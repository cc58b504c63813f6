"""Rare but right: does a route that is always right, and that the policy hardly ever takes, grow?

`a` is followed by a coin, `h` or `t`, and right half the time, nobody can know when; `b!`, 1 in 100 at first, is always
right. A clip that stops at 1 + 0.2 stops the rare route first, as its probability moves by the largest factor.

Start: 1.3 % take the rare route. Tuning (seeds 0 to 2): base 0.61, unclipped 0.72, a difference of 0.111 with a
deviation of 0.029 over seeds.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass

from rlzoo.lab.suite.experiment import Arm, Claim, Contrast, Experiment
from rlzoo.lab.suite.measures import Trained, true_accuracy
from rlzoo.lab.suite.micro import MicroTask, coin
from rlzoo.tasks.base import Problem


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


COIN = {"task.options.flip": 0.5}
EXPERIMENT = Experiment(
    name="rare_but_right",
    failure_mode="exploration",
    question="Does a rare route that is always right grow?",
    task=RareRight,
    settings={
        "rollout.max_response_tokens": 4,
        "train.minibatches_per_step": 8,
        "train.learning_rate": 5e-4,
    },
    arms={
        "base": Arm("grpo-kl"),
        "clip_higher": Arm("grpo-kl+clip_higher"),
        "unclipped": Arm("grpo-kl+unclipped"),
        "random rewards": Arm("grpo-kl", COIN),
        "random rewards, clip_higher": Arm("grpo-kl+clip_higher", COIN),
    },
    score="rare",
    unit="share of rollouts that take the rare route",
    higher_is_better=True,
    measure=share_of_the_rare_route,
    positive=Contrast("unclipped", higher=True),
    negative=("random rewards, clip_higher", "random rewards"),
    claims=[
        Claim(
            "clip_higher",
            higher=True,
            text="A higher upper clip lets rare right tokens grow.",
            paper="arXiv:2503.14476 section 3.1, table 1",
            published="entropy stays up; AIME 2024 from 36 to 38",
            smallest=0.01,
        )
    ],
)
