"""Tasks made of those in `forks`: guesses that are always the same, and prompts of two kinds."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from rlzoo.lab.suite.experiments.forks import FORCED, RIGHT, Forks, Guesses
from rlzoo.lab.suite.measures import Trained
from rlzoo.tasks.base import Problem


@dataclass(frozen=True)
class Fixed(Guesses):
    """Guesses that are always the same."""

    def guess(self, rng: random.Random) -> str:
        """The first two letters."""
        return self.letters[:2]


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
