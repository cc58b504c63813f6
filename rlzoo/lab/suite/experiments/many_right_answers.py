"""Many right answers: do equally good answers die out?

Five of ten letters are right, and a fifth of the rewards are wrong: without that noise a group is soon all right and
nothing moves any more; with it the shares of the five drift, and what has become rare is not sampled again.

Tuning (seeds 0 to 2): base 0.37, with the entropy bonus 0.88, a difference of 0.514 with a deviation of 0.068.
"""

import math
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from rlzoo.lab.suite.experiment import Arm, Claim, Contrast, Experiment, Start
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


CLEAN = {"task.options.flip": 0.0}
EXPERIMENT = Experiment(
    name="many_right_answers",
    failure_mode="diversity",
    question="Do equally good answers die out?",
    task=Many,
    start=Start(slip_rate=0.7, clean_fraction=0.5),
    settings={
        "rollout.max_response_tokens": 4,
        "rollout.prompts_per_step": 16,
        "train.steps": 50,
        "train.minibatches_per_step": 4,
        "train.learning_rate": 2e-3,
    },
    arms={
        "base": Arm("grpo-kl"),
        "kl": Arm("grpo(beta=0.1)"),
        "passk": Arm("passk"),
        "clip_higher": Arm("grpo-kl+clip_higher"),
        "entropy bonus": Arm("grpo-kl+entropy_bonus(coefficient=0.1)"),
        "clean rewards": Arm("grpo-kl", CLEAN),
        "clean rewards, clip_higher": Arm("grpo-kl+clip_higher", CLEAN),
    },
    score="variety",
    unit="distinct right answers in use, of those that there are",
    higher_is_better=True,
    measure=variety_of_right_answers,
    positive=Contrast("entropy bonus", higher=True),
    negative=("clean rewards, clip_higher", "clean rewards"),
    claims=[
        Claim(
            "kl",
            higher=True,
            text="A divergence from the reference keeps equally good answers alive.",
            paper="arXiv:2402.03300 section 4.1",
            published="the term keeps the policy near the reference; no measurement without it",
            smallest=0.1,
        ),
        Claim(
            "passk",
            higher=True,
            text="Rewarding several answers together for one right one keeps answers various.",
            paper="arXiv:2508.10751",
            published="pass@k rises while pass@1 stays; exploration without entropy collapse, in curves",
            smallest=0.1,
        ),
        Claim(
            "clip_higher",
            higher=True,
            text="A higher upper clip keeps samples diverse.",
            paper="arXiv:2503.14476 section 3.1",
            published="entropy stays up and samples stay diverse, in curves; AIME 2024 from 36 to 38",
            smallest=0.1,
        ),
    ],
)
