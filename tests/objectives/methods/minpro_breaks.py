"""Mistakes that one could make in MinPRO."""

from typing import Any

import torch
from torch import Tensor

from objectives import TokenBatch
from tests.objectives.breaks import Break, always, instead, log_ratio, result

RATIO = "prefix_min_ratio"


def tools_take_part(self: Any, rows: TokenBatch, logp: Tensor) -> Tensor:
    change = log_ratio(rows, logp) * rows.mask
    before = torch.nn.functional.pad(change.detach(), (1, 0), value=torch.inf)[:, :-1].cummin(1).values
    return (change + torch.where(before.isinf(), 0.0, before)).clamp(-20, 20).exp()


def product_of_the_prefix(self: Any, rows: TokenBatch, logp: Tensor) -> Tensor:
    change = log_ratio(rows, logp)
    before = (change.detach() * rows.mask).cumsum(1) - change.detach() * rows.mask
    return (change + before).clamp(-20, 20).exp()


BREAKS = [
    Break("sign", "old policy over the current one", RATIO, "ratio", result(lambda ratio, *given: 1 / ratio)),
    Break("strictness", "itself takes part", RATIO, "prefix", always("inclusive")),
    Break("strictness", "1 takes part", RATIO, "prefix", always("capped")),
    Break("scope", "tools take part", RATIO, "ratio", instead(tools_take_part)),
    Break("scope", "product, not minimum", RATIO, "ratio", instead(product_of_the_prefix)),
    Break("bound", "another upper width", "cispo", "high", always(2.0)),
]
