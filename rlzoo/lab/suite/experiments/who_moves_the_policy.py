"""Who moves the policy: after one step, did tokens become likelier or less likely as their advantage asks?

Prompts that begin with an even digit are answered by sixteen nearly certain letters and four forks; those that begin
with an odd one by twenty coins. Improbable tokens have the larger gradients, and what they do to the parameters they
share with the others moves these against their own advantage. Lopti updates the two in turns; but two updates move
further than one, so that a dummy twin is an arm: all tokens in the first pass, none in the second, which Adam's
momentum still moves.

The positive control has coins alone: where no token is nearly certain, no improbable one moves it. Mended once: two
prompts instead of 192 were not told from base at ten seeds (0.062, with a deviation of 0.061); nor were eight epochs
before. Tuning (seeds 10 to 15): base 0.488, coins 0.591, a difference of 0.103 with a deviation of 0.009.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from rlzoo.lab.suite.experiment import Arm, Claim, Contrast, Experiment, Start
from rlzoo.lab.suite.experiments.forking_tokens import FORCED, RIGHT, Forks
from rlzoo.lab.suite.measures import Trained
from rlzoo.tasks.base import Problem


def is_certain(problem: Problem) -> bool:
    """Whether the answer has forced letters: by the first digit."""
    return int(str(problem.prompt)[0]) % 2 == 0


@dataclass(frozen=True)
class TwoKinds(Forks):
    """Forks among forced letters, or twenty coins; `kind` is `certain`, `coins` or `both`."""

    kind: str = "both"

    def demonstration(self, problem: Problem, rng: random.Random, slip_rate: float = 0.0) -> str:
        """Of the prompt's kind."""
        if is_certain(problem):
            return super().demonstration(problem, rng, slip_rate)
        return "".join(rng.choice("01") for _ in RIGHT)

    @staticmethod
    def right(problem: Problem, response: str) -> bool:
        """Three forks of four or more, and no slip; or more ones than zeros."""
        if not is_certain(problem):
            return response.count("1") > len(RIGHT) / 2
        forks = sum(a == b for a, b in zip(response[4::5], RIGHT[4::5], strict=False))
        return len(response) == len(RIGHT) and forks >= 3 and [c for c in response if c in FORCED] == [*FORCED]

    @cached_property
    def train(self) -> Sequence[Problem]:
        """Of the kind that is asked for."""
        return [p for p in self._side(held_out=False) if self.kind in ("both", ("coins", "certain")[is_certain(p)])]


@torch.no_grad()
def share_moved_as_asked(cell: Trained) -> Mapping[str, float]:
    """Of the tokens with an advantage: those whose log-prob moved in its direction; and of the probable ones alone."""
    trainer, graded = cell.trainer, cell.rollouts[0]
    rollouts, group = graded.rollouts, trainer.config.rollout.responses_per_prompt
    logp = trainer.policy(rollouts.responses(), 1.0).logp
    reward = graded.reward.reshape(-1, group)
    advantage = (reward - reward.mean(1, keepdim=True)).flatten()[:, None]
    before, mask = rollouts.logp[:, : logp.shape[1]], rollouts.mask[:, : logp.shape[1]]
    asked = mask & (advantage.abs() > 1e-6)
    moved = ((logp - before) * advantage > 0)[asked].float()
    probable = before[asked].exp() > 0.9
    return {
        "moved": float(moved.mean()) if len(moved) else 0.5,
        "probable_moved": float(moved[probable].mean()) if probable.any() else 0.0,
        "size": float((logp - before)[asked].abs().sum()) / max(1, len(moved)),
    }


COINS = {"task.options.kind": "coins"}
EXPERIMENT = Experiment(
    name="who_moves_the_policy",
    failure_mode="credit",
    question="Which tokens move as their advantage asks?",
    task=TwoKinds,
    start=Start(steps=500),
    first_seed=1200,
    settings={
        "rollout.max_response_tokens": 24,
        "rollout.prompts_per_step": 192,
        "train.steps": 1,
        "task.options.kind": "certain",
    },
    arms={
        "base": Arm("grpo-kl+token_mean"),
        "lopti": Arm("grpo-kl+token_mean+lopti"),
        "lopti reversed": Arm("grpo-kl+token_mean+lopti(order=high_first)"),
        "dummy twin": Arm("grpo-kl+token_mean+lopti(eta=1)"),
        "advantage_reweighting": Arm("grpo-kl+token_mean+advantage_reweighting"),
        "two prompts": Arm("grpo-kl+token_mean", {"rollout.prompts_per_step": 2}),
        "coins": Arm("grpo-kl+token_mean", COINS),
        "coins, advantage_reweighting": Arm("grpo-kl+token_mean+advantage_reweighting", COINS),
    },
    score="moved",
    unit="share of tokens whose log-prob moved as their advantage asks",
    higher_is_better=True,
    measure=share_moved_as_asked,
    positive=Contrast("coins", higher=True),
    negative=("coins, advantage_reweighting", "coins"),
    claims=[
        Claim(
            "lopti",
            higher=True,
            against="dummy twin",
            text="Updating improbable tokens first moves more tokens as their advantage asks.",
            paper="arXiv:2505.12929 algorithm 1",
            published="Knights and Knaves, 3B: 0.39 to 0.54",
            smallest=0.005,
        ),
        Claim(
            "lopti",
            higher=True,
            against="lopti reversed",
            text="Improbable tokens have to be updated first, not last.",
            paper="arXiv:2505.12929",
            published="in the reversed order training collapses after the fourth epoch",
            smallest=0.005,
        ),
        Claim(
            "advantage_reweighting",
            higher=True,
            text="Weighing tokens by their probability moves more tokens as their advantage asks.",
            paper="arXiv:2505.12929 equation 4",
            published="Knights and Knaves, 3B: 0.39 to 0.53",
            smallest=0.005,
        ),
    ],
)
