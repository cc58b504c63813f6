"""Mistakes that one could make in GMPO."""

from typing import Any

import torch
from torch import Tensor

from objectives import TokenBatch
from tests.objectives.breaks import Break, always, instead, log_ratio, with_negative


def gmpo_with(mean_over_padding: bool = False, cut: bool = True, pessimistic: bool = True) -> Any:
    def ratio(self: Any, rows: TokenBatch, logp: Tensor) -> Tensor:
        change = log_ratio(rows, logp.detach())
        one_sided = torch.where(rows.advantage < 0, change.clamp(min=-self.low), change.clamp(max=self.high))
        clipped = one_sided if pessimistic else change.clamp(-self.low, self.high)
        count = rows.mask.shape[1] if mean_over_padding else rows.mask.sum(1, keepdim=True).clamp(min=1)
        mean = (clipped * rows.mask).sum(1, keepdim=True) / count
        return mean.exp() * torch.where((clipped == change) | (not cut), logp - logp.detach(), 0.0).exp()

    return instead(ratio)


BREAKS = [
    Break("sign", "clipped where it helps", "geometric_ratio", "ratio", with_negative("advantage")),
    Break("bound", "width of a ratio, not of its log", "geometric_ratio", "high", always(0.2)),
    Break("bound", "both sides clipped", "geometric_ratio", "ratio", gmpo_with(pessimistic=False)),
    Break("denominator", "mean over the padding", "geometric_ratio", "ratio", gmpo_with(mean_over_padding=True)),
    Break("detach", "clipped tokens keep their gradient", "geometric_ratio", "ratio", gmpo_with(cut=False)),
]
