"""Forking tokens: is it enough to train on the fifth of the tokens that decide?

Four times four forced letters, in which the policy slips once in a hundred, and then a fork, `0` or `1`, of which it
takes the right one with probability 0.6. So the decisive fifth of the tokens is known, and so is their entropy.

Start: 12 % right. Tuning (seeds 0 to 2): base 0.588, without the forks 0.069, a difference of 0.519 with a deviation of
0.013.
"""

import random
from dataclasses import dataclass

from rlzoo.lab.suite.experiment import Arm, Claim, Contrast, Experiment, Start
from rlzoo.lab.suite.measures import accuracy_of_the_last_steps
from rlzoo.lab.suite.micro import MicroTask
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


COIN = {"task.options.flip": 0.5, "train.learning_rate": 1e-4}
EXPERIMENT = Experiment(
    name="forking_tokens",
    failure_mode="credit",
    question="Is it enough to train on the fifth of the tokens that decide?",
    task=Forks,
    start=Start(steps=400),
    settings={"rollout.max_response_tokens": 24},
    arms={
        "base": Arm("grpo-kl+token_mean"),
        "top_entropy": Arm("grpo-kl+token_mean+top_entropy"),
        "the known forks": Arm("grpo-kl+token_mean+rlzoo.lab.suite.oracles:known_places(period=5)"),
        "all but the forks": Arm("grpo-kl+token_mean+rlzoo.lab.suite.oracles:known_places(period=5,others=true)"),
        "random rewards": Arm("grpo-kl+token_mean", COIN),
        "random rewards, top_entropy": Arm("grpo-kl+token_mean+top_entropy", COIN),
    },
    score="accuracy",
    unit="share of right answers in the last five steps",
    higher_is_better=True,
    measure=accuracy_of_the_last_steps,
    positive=Contrast("all but the forks", higher=False),
    negative=("random rewards, top_entropy", "random rewards"),
    claims=[
        Claim(
            "top_entropy",
            higher=True,
            text="Training on the fifth of the tokens with the highest entropy is better than training on all.",
            paper="arXiv:2506.01939 abstract",
            published="about the same on Qwen3-8B, better on Qwen3-32B: AIME 2024 +7.71, AIME 2025 +11.04",
            smallest=0.05,
        ),
        Claim(
            "the known forks",
            higher=True,
            text="The forks alone carry what there is to learn.",
            paper="arXiv:2506.01939 abstract",
            published="the other 80 % of the tokens alone: a strong decline",
            smallest=0.05,
        ),
    ],
)
