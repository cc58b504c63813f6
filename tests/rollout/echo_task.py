"""A task from outside with an environment of its own, which adds a token to each response."""

from dataclasses import dataclass, replace

import torch

from rlzoo.rollout.sampler import GradedRollouts, SingleTurn
from rlzoo.tasks.sums import Sums

WRITTEN = 3
"""The environment's token."""


@dataclass(frozen=True)
class Answering(SingleTurn):
    """Answers each response with one token; what it earns is settled while it is sampled."""

    grades_text = False
    grades_tokens = False

    def __call__(self, *arguments: object) -> GradedRollouts:  # type: ignore[override]
        graded = super().__call__(*arguments)  # type: ignore[arg-type]
        rollouts, rows = graded.rollouts, torch.arange(len(graded.rollouts.lengths))
        wider = rollouts.widened(rollouts.tokens.shape[1] + 1)
        tokens = wider.tokens.clone()
        tokens[rows, rollouts.lengths] = WRITTEN
        return replace(graded, rollouts=replace(wider, tokens=tokens, lengths=rollouts.lengths + 1))


class Echo(Sums):
    """Sums whose responses are answered."""

    environment = Answering
