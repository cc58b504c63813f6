"""Mistakes that one could make in DAPO."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from objectives import TokenBatch, Writer
from tests.objectives.breaks import Break, always, given, instead, negated, result


def a_quarter_of_the_limit(self: Any, batch: TokenBatch) -> Tensor:
    limit = float(self.max_length or batch.max_length)
    cache = self.cache or limit / 4
    return ((limit - cache - batch.lengths.double()) / cache).clamp(-1, 0)


def micro_batches_alike(self: object, batch: TokenBatch, counted: Tensor) -> Tensor:
    coefficient, there = (
        torch.zeros(batch.mask.shape, dtype=torch.float64),
        batch.micro_batch[batch.mask.any(1)].unique(),
    )
    for number in there:
        rows = batch.micro_batch == number
        coefficient[rows] = 1 / (len(there) * counted[rows].sum().clamp(min=1)).double()
    return coefficient


BREAKS = [
    Break("sign", "long responses rewarded", "soft_overlong", "shaping", result(negated)),
    Break(
        "strictness", "a quarter of the limit, not a fifth", "soft_overlong", "shaping", instead(a_quarter_of_the_limit)
    ),
    Break(
        "denominator",
        "padding counted",
        "token_mean",
        "coefficients",
        given(lambda batch, counted: (batch, torch.ones_like(counted))),
    ),
    Break("scope", "mean over each prompt", "token_mean", "scope", always("prompt")),
    Break("scope", "micro-batches weigh the same", "token_mean", "coefficients", instead(micro_batches_alike)),
    Break(
        "scope",
        "groups judged by their rewards",
        "dynamic_sampling",
        "selects",
        given(lambda batch: (batch.with_fields(correct=batch.reward),)),
    ),
    Break(
        "scope",
        "silenced tokens not in the length",
        "soft_overlong",
        "shaping",
        given(lambda batch: (batch.with_fields(length=batch.mask.sum(1)),)),
    ),
    Break(
        "scope",
        "tokens of an environment in the length",
        "soft_overlong",
        "shaping",
        given(lambda batch: (batch.with_fields(length=(batch.writer != Writer.NONE).sum(1)),)),
    ),
    Break(
        "bound",
        "lower bound moved as well",
        "clip_higher",
        "modify",
        result(lambda bounds, *given: replace(bounds, low=bounds.high)),
    ),
]
