"""Spurious tokens: does a useless rare token behind right answers become frequent?

A letter is right or wrong; in 3 % of the demonstrations a useless `_` follows it, at a place where the policy is
otherwise sure to end. Where it was sampled behind a right letter it is rewarded with it. STAPO's published threshold, a
probability of 0.002, is below whatever this language samples: that arm shows that it does not fire here.

Start: 25 % right. Mended once: the negative control was random rewards, under which the mask takes rewarded rare tokens
away as well; now `_` is never rewarded. Tuning (seeds 10 to 15): base -1.63, with rare tokens amplified -1.04, a
difference of 0.588 with a deviation of 0.136; (seeds 20 to 27) where `_` is never rewarded -2.205, with the mask
-2.207.
"""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from rlzoo.lab.suite.experiment import Arm, Claim, Contrast, Experiment
from rlzoo.lab.suite.lookup import HALF_RIGHT, LETTERS, Lookup, right_letter
from rlzoo.lab.suite.measures import Trained, accuracy_of_the_last_steps
from rlzoo.lab.suite.micro import Grading
from rlzoo.tasks.base import Grader, Problem


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


NEVER = {"task.options.harmless": False}
EXPERIMENT = Experiment(
    name="spurious_tokens",
    failure_mode="spurious_tokens",
    question="Does a useless rare token behind right answers become frequent?",
    task=Planted,
    start=HALF_RIGHT,
    first_seed=1200,
    settings={"rollout.max_response_tokens": 4, "rollout.prompts_per_step": 64},
    arms={
        "base": Arm("justrl"),
        "s2t": Arm("justrl+s2t"),
        "s2t, scaled": Arm("justrl+s2t(tau_p=0.06)"),
        "top_entropy": Arm("justrl+top_entropy"),
        "rare tokens amplified": Arm("justrl+rlzoo.lab.suite.oracles:amplify_rare(tau=0.06)"),
        "never rewarded": Arm("justrl", NEVER),
        "never rewarded, s2t, scaled": Arm("justrl+s2t(tau_p=0.06)", NEVER),
    },
    score="planted",
    unit="log10 of the probability of the useless token behind the right answer",
    higher_is_better=False,
    measure=planted_behind_the_right_letter,
    positive=Contrast("rare tokens amplified", higher=True),
    negative=("never rewarded, s2t, scaled", "never rewarded"),
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
