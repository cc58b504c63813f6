"""Length bias: do wrong answers grow, though length earns nothing?

A response is `g` and dots, right, or `w` and commas, wrong; both have about seven at first. With the mean per response
a long wrong answer is punished less per token than a short one, so that wrong answers drift to the long ones. Each way
has a filler of its own: with one for both, so small a model does not tell the two apart, and no drift shows.

Tuning (seeds 0 to 2): base 2.24, its deviation 0.01; with the positive control -0.39, a difference of 2.63 with a
deviation of 0.14. Sixteen steps instead of ten gave 3.06 for base, 0.44 for the token mean.
"""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass

from rlzoo.lab.suite.experiment import Arm, Claim, Contrast, Experiment
from rlzoo.lab.suite.measures import Trained, true_accuracy
from rlzoo.lab.suite.micro import MicroTask
from rlzoo.tasks.base import Problem


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


COIN = {"task.options.flip": 0.5}
EXPERIMENT = Experiment(
    name="length_bias",
    failure_mode="length_growth",
    question="Do wrong answers grow though length earns nothing?",
    task=Filler,
    settings={"rollout.max_response_tokens": 64, "train.steps": 10},
    arms={
        "base": Arm("grpo-kl"),
        "token_mean": Arm("grpo-kl+token_mean"),
        "constant_length": Arm("grpo-kl+constant_length"),
        "wrong answers pay for length": Arm("grpo-kl+constant_length+rlzoo.lab.suite.oracles:shorter_wrong"),
        "random rewards": Arm("grpo-kl", COIN),
        "random rewards, token_mean": Arm("grpo-kl+token_mean", COIN),
    },
    score="drift",
    unit="log of the length of wrong answers over that of right ones",
    higher_is_better=False,
    measure=log_ratio_of_lengths,
    positive=Contrast("wrong answers pay for length", higher=False),
    negative=("random rewards, token_mean", "random rewards"),
    claims=[
        Claim(
            "constant_length",
            higher=False,
            text="Dividing by a constant instead of the response's length stops wrong answers from growing.",
            paper="arXiv:2503.20783 section 3.1",
            published="the length of wrong responses falls well below GRPO's, a curve without a number",
            smallest=0.5,
        ),
        Claim(
            "token_mean",
            higher=False,
            text="A mean over all tokens keeps long bad answers from growing.",
            paper="arXiv:2503.14476 section 3.3",
            published="response length grows in a healthy way; AIME 2024 from 41 to 42",
            smallest=0.5,
        ),
    ],
)
