"""Mistakes that one could make in CE-GPPO."""

from typing import Any

import torch
from torch import Tensor

from objectives import Bounds
from tests.objectives.breaks import Break, always, instead, result


def differentiated(self: Any, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Any) -> Tensor:
    below, above = (advantage < 0) & (ratio < 1 - bounds.low), (advantage > 0) & (ratio > 1 + bounds.high)
    kept = ratio * torch.where(below, self.beta1, torch.where(above, self.beta2, 1.0))
    capped = (advantage < 0) & (ratio > bounds.cap)
    return -advantage * torch.where(capped, kept.detach(), kept)


PART = "gradient_preserving_clip"

BREAKS = [
    Break(
        "sign",
        "the loss of good tokens",
        PART,
        "loss",
        result(lambda loss, ratio, logp, advantage, *more: torch.where(advantage < 0, loss, -loss)),
    ),
    Break("bound", "PPO's clip below", PART, "beta1", always(0.0)),
    Break("bound", "PPO's clip above", PART, "beta2", always(0.0)),
    Break("bound", "no cap", "dual_clip", "cap", always(1e30)),
    Break("detach", "the ratio's gradient outside", PART, "loss", instead(differentiated)),
]
