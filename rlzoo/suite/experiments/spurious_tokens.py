"""Spurious tokens: does a useless rare token behind right answers become frequent?

A letter is right or wrong; in 3 % of the demonstrations a useless `_` follows it, at a place where the policy is
otherwise sure to end. Where it was sampled behind a right letter it is rewarded with it. STAPO's published threshold, a
probability of 0.002, is below whatever this language samples: that arm shows that it does not fire here.

Start: 25 % right. Tuning (seeds 0 to 2): base -1.75, with rare tokens amplified -1.04, a difference of 0.716 with a
deviation of 0.105.
"""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from rlzoo.suite.experiment import Arm, Claim, Contrast, Experiment
from rlzoo.suite.lookup import HALF_RIGHT, LETTERS, Lookup, right_letter
from rlzoo.suite.measures import accuracy_of_the_last_steps
from rlzoo.suite.trained import Trained
from rlzoo.tasks.base import Problem


@dataclass(frozen=True)
class Planted(Lookup):
    """A letter, and a useless `_` behind it at a rate."""

    rate: float = 0.03
    symbols = LETTERS + "_"

    def demonstration(self, problem: Problem, rng: random.Random, slip_rate: float = 0.0) -> str:
        """Whatever the letter, `_` is as frequent."""
        return super().demonstration(problem, rng, slip_rate) + "_" * (rng.random() < self.rate)

    @staticmethod
    def right(problem: Problem, response: str) -> bool:
        """With `_` or without."""
        return response.removesuffix("_") == right_letter(problem)


@torch.no_grad()
def planted_behind_the_right_letter(cell: Trained) -> Mapping[str, float]:
    """log10 of the probability of `_` behind the right letter, exact; the share of right answers."""
    trainer = cell.trainer
    tokenizer = trainer.experiment.tokenizer
    problems = trainer.experiment.held_out[:256]
    tokens = torch.tensor([tokenizer.encode(f"{problem.prompt}{right_letter(problem)}") for problem in problems])
    chances = trainer.policy.next_logits(tokens).log_softmax(1)[:, tokenizer.encode("_")[0]]
    return {"planted": float(chances.exp().mean().log()) / math.log(10), **accuracy_of_the_last_steps(cell)}


OFTEN = {"task.options.flip": 0.5}
EXPERIMENT = Experiment(
    name="spurious_tokens",
    trouble="spurious_tokens",
    question="Does a useless rare token behind right answers become frequent?",
    task=Planted,
    start=HALF_RIGHT,
    settings={"rollout.max_response_tokens": 4, "rollout.prompts_per_step": 64},
    arms={
        "base": Arm("justrl"),
        "s2t": Arm("justrl+s2t"),
        "s2t, scaled": Arm("justrl+s2t(tau_p=0.06)"),
        "top_entropy": Arm("justrl+top_entropy"),
        "rare tokens amplified": Arm("justrl+rlzoo.suite.oracles:amplify_rare(tau=0.06)"),
        "random rewards": Arm("justrl", OFTEN),
        "random rewards, s2t, scaled": Arm("justrl+s2t(tau_p=0.06)", OFTEN),
    },
    score="planted",
    unit="log10 of the probability of the useless token behind the right answer",
    higher_is_better=False,
    measure=planted_behind_the_right_letter,
    positive=Contrast("rare tokens amplified", higher=True),
    negative=("random rewards, s2t, scaled", "random rewards"),
    claims=[
        Claim(
            "s2t, scaled",
            higher=False,
            text="Silencing rare rewarded tokens where entropy is low keeps spurious tokens from growing.",
            paper="arXiv:2602.15620 v4",
            published="accuracy 11.49 % (relative) above the best baseline at temperature 1, mean of three sizes",
            smallest=0.1,
        ),
        Claim(
            "s2t",
            higher=False,
            text="At the published threshold of 0.002 the mask keeps spurious tokens from growing.",
            paper="arXiv:2602.15620 v4",
            published="masks fewer than 0.01 % of the tokens; here it is expected not to fire",
            smallest=0.1,
        ),
    ],
)
