"""An experiment of somebody else's: whether more of what is right comes to be written, in two short steps."""

import random
from collections.abc import Mapping
from dataclasses import dataclass

from rlzoo.lab.suite.experiment import Arm, Claim, Contrast, Experiment, Start
from rlzoo.lab.suite.measures import Trained
from rlzoo.lab.suite.micro import MicroTask
from rlzoo.tasks.base import Problem

RIGHT = "y"


@dataclass(frozen=True)
class Coin(MicroTask):
    """`y` is right and `n` is wrong; at first they are equally likely."""

    symbols = "yn"

    def demonstration(self, problem: Problem, rng: random.Random, slip_rate: float = 0.0) -> str:
        """Either."""
        return rng.choice("yn")

    @staticmethod
    def right(problem: Problem, response: str) -> bool:
        """One of them."""
        return response == RIGHT


def share(cell: Trained) -> Mapping[str, float]:
    """Of what is right, in the last step's rollouts."""
    last = cell.rollouts[-1]
    return {"right": float(last.correct.mean()), "length": float(last.rollouts.lengths.float().mean())}


EXPERIMENT = Experiment(
    name="coin",
    failure_mode="none",
    question="Is more of it right?",
    task=Coin,
    settings={
        "rollout.max_response_tokens": 2,
        "rollout.prompts_per_step": 4,
        "rollout.responses_per_prompt": 4,
        "train.steps": 2,
        "train.learning_rate": 1e-2,
        "evaluation.problems": 8,
    },
    start=Start(steps=15),
    arms={"base": Arm("grpo-kl"), "idle": Arm("grpo-kl", {"train.learning_rate": 0.0})},
    score="right",
    unit="share of right rollouts",
    higher_is_better=True,
    measure=share,
    positive=Contrast("idle", higher=False),
    negative=("base", "base"),
    claims=[Claim("idle", higher=False, text="Who does not learn knows less.", paper="none", published="less")],
)
