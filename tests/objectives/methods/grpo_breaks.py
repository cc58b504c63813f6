"""Mistakes that one could make in GRPO."""

from typing import Any

import torch
from torch import Tensor

from objectives import TokenBatch
from tests.objectives.breaks import (
    Break,
    always,
    clips_also,
    given,
    instead,
    longest_response,
    negated,
    per_group,
    result,
)


def not_detached(ratio: Any) -> Any:
    def wrong(self: object, rows: TokenBatch, logp: Tensor) -> Tensor:
        return (logp - logp).exp() if rows.logp_old is None else ratio(self, rows, logp)

    return wrong


def k3_reversed(self: Any, rows: TokenBatch, logp: Tensor, entropy: object) -> Tensor:
    difference = logp - rows.logp_ref
    return self.beta * (torch.expm1(difference) - difference)


def value_of_k3_gradient_of_k1(self: Any, rows: TokenBatch, logp: Tensor, entropy: object) -> Tensor:
    difference = logp - rows.logp_ref
    return self.beta * (torch.expm1(-difference).detach() + difference)


def empty_responses_too(self: object, batch: TokenBatch, counted: Tensor) -> Tensor:
    return 1 / (len(batch.mask) * counted.sum(1, keepdim=True).clamp(min=1).double()).expand(batch.mask.shape)


BREAKS = [
    Break("sign", "mean minus reward", "group_norm", "advantage", result(negated)),
    Break("sign", "KL's log-ratio reversed", "kl", "penalty", instead(k3_reversed)),
    Break(
        "strictness",
        "ratio on the upper bound clipped",
        "clip",
        "clips",
        clips_also(lambda r, a, b: (a > 0) & (r >= 1 + b.high)),
    ),
    Break(
        "strictness",
        "ratio on the lower bound clipped",
        "clip",
        "clips",
        clips_also(lambda r, a, b: (a < 0) & (r <= 1 - b.low)),
    ),
    Break(
        "denominator",
        "std with ddof 0",
        "group_norm",
        "advantage",
        per_group(lambda x: (x - x.mean()) / (x.std(correction=0) + 1e-6)),
    ),
    Break("denominator", "1e-4 added to the std", "group_norm", "eps", always(1e-4)),
    Break("denominator", "divides by the longest response", "seq_mean", "coefficients", instead(longest_response)),
    Break("denominator", "counts empty responses", "seq_mean", "coefficients", instead(empty_responses_too)),
    Break("detach", "ratio against itself, not detached", "token_ratio", "ratio", not_detached),
    Break("detach", "value of k3, gradient of k1", "kl", "penalty", instead(value_of_k3_gradient_of_k1)),
    Break(
        "scope",
        "statistics of the batch, not of the group",
        "group_norm",
        "advantage",
        given(lambda reward, group: (reward, group * 0)),
    ),
    Break(
        "zero",
        "equal rewards left to rounding",
        "group_norm",
        "advantage",
        per_group(lambda x: (x - x.sum() / len(x)) / (x.std() + 1e-6)),
    ),
]
