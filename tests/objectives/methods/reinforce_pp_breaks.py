"""Mistakes that one could make in REINFORCE++."""

from typing import Any

import torch
from torch import Tensor

from objectives import TokenBatch
from tests.objectives.breaks import Break, always, instead, negated, result


def deviation_of_groups(self: object, batch: TokenBatch) -> Tensor:
    reward = batch.reward if batch.reward.dim() == 2 else batch.like_tokens(batch.reward)
    values = torch.zeros_like(reward)
    for name in batch.group.unique():
        rows = batch.group == name
        present = reward[rows][batch.mask[rows]]
        values[rows] = (
            (reward[rows] - present.mean()) / present.std(correction=0).clamp(min=1e-4) if len(present) else 0
        )
    return values


def from_the_next_token_on(self: Any, batch: TokenBatch) -> Tensor:
    divergence = batch.logp_old - batch.logp_ref
    return -self.beta * (divergence.flip(1).cumsum(1).flip(1) - divergence) * batch.mask


BREAKS = [
    Break("sign", "divergence rewarded", "kl_reward", "shaping", result(negated)),
    Break("strictness", "divergence from the next token on", "kl_reward", "shaping", instead(from_the_next_token_on)),
    Break(
        "denominator",
        "std with ddof 1",
        "global_norm",
        "of",
        result(lambda a, batch: a * (1 - 1 / batch.mask.sum().clamp(min=2)).sqrt()),
    ),
    Break("scope", "statistics of each group", "global_norm", "of", instead(deviation_of_groups)),
    Break("scope", "over rows, not tokens", "global_norm", "over", always("rows")),
]
