"""Mistakes that one could make in ARM."""

from typing import Any

import torch
from torch import Tensor

from objectives import TokenBatch
from tests.objectives.breaks import Break, always, instead, negated, result, with_negative


def of_all_tokens(self: Any, batch: TokenBatch) -> Tensor:
    return ((batch.logp_old * batch.mask).sum(1) / batch.mask.sum(1).clamp(min=1)).exp()


def of_the_padded_width(self: Any, batch: TokenBatch) -> Tensor:
    """The share of positions, whether there is a token or not."""
    logp = batch.logp_old.masked_fill(~batch.mask, 0.0).sort(1).values
    count = max(1, int(logp.shape[1] * self.fraction))
    return (logp[:, :count].sum(1) / count).exp()


BREAKS = [
    Break("sign", "surer responses gain", "confidence_shift", "weight", result(negated)),
    Break("sign", "the most probable tokens", "confidence_shift", "_confidence", with_negative("logp_old")),
    Break("bound", "half of the tokens", "confidence_shift", "fraction", always(0.5)),
    Break("denominator", "share of the padded width", "confidence_shift", "_confidence", instead(of_the_padded_width)),
    Break("scope", "all tokens", "confidence_shift", "_confidence", instead(of_all_tokens)),
    Break(
        "scope",
        "every group",
        "confidence_shift",
        "_signal",
        instead(lambda self, batch: torch.ones_like(batch.mask[:, 0])),
    ),
    Break("additive", "a factor", "confidence_shift", "additive", always(False)),
]
