"""Mistakes that one could make in GSPO."""

from typing import Any

from torch import Tensor

from objectives import TokenBatch
from tests.objectives.breaks import Break, always, instead, log_ratio


def through_the_mean(self: Any, rows: TokenBatch, logp: Tensor) -> Tensor:
    apart = log_ratio(rows, logp) * rows.mask
    total = apart.sum(1, keepdim=True)
    count = rows.mask.sum(1, keepdim=True).clamp(min=1)
    return (total / count if self.norm == "mean" else total.clamp(-20, 20)).exp().expand(logp.shape)


def over_the_padded_width(self: Any, rows: TokenBatch, logp: Tensor) -> Tensor:
    total = (log_ratio(rows, logp.detach()) * rows.mask).sum(1, keepdim=True)
    return (total / rows.mask.shape[1]).exp() * (logp - logp.detach()).exp()


BREAKS = [
    Break(
        "sign",
        "old policy over the current one",
        "sequence_ratio",
        "ratio",
        lambda ratio: lambda self, rows, logp: 1 / ratio(self, rows, logp),
    ),
    Break("denominator", "mean over the padding", "sequence_ratio", "ratio", instead(over_the_padded_width)),
    Break("bound", "lower width of PPO", "clip", "low", always(0.2)),
    Break("bound", "upper width of DAPO", "clip_higher", "high", always(0.28)),
    Break("detach", "gradient through the mean", "sequence_ratio", "ratio", instead(through_the_mean)),
]
