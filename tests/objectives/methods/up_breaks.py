"""Mistakes that one could make in UP."""

from typing import Any

import torch
from torch import Tensor

from objectives import Bounds
from tests.objectives.breaks import Break, always, instead, result

PART = "unbounded_positive"


def anchored(self: Any, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: object) -> Tensor:
    return -advantage * torch.where(self.clips(ratio, advantage, bounds), ratio.detach(), ratio)


BREAKS = [
    Break("bound", "another lower bound", PART, "low", always(0.3)),
    Break("sign", "bad tokens unbounded", PART, "clips", result(lambda clips, *given: clips & False)),
    Break("anchor", "good tokens by the old policy", PART, "loss", instead(anchored)),
    Break("scale", "the value without its gradient", PART, "loss", result(lambda loss, *given: 2 * loss)),
]
