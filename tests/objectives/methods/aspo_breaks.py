"""Mistakes that one could make in ASPO."""

from typing import Any

import torch
from torch import Tensor

from objectives import Bounds
from tests.objectives.breaks import Break, Wrong, always, instead


def aspo_with(drops_by_weight: bool = False, detached: bool = True, turned: bool = True) -> Wrong:
    def loss(self: Any, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Any) -> Tensor:
        constant = ratio.detach() if detached else ratio
        weight = torch.where((advantage > 0) == turned, 1 / constant, constant)
        dropped = self.clips(weight if drops_by_weight else ratio, advantage, bounds)
        live = torch.where(dropped, 0.0, logp - logp.detach())
        return -weight.clamp(max=self.most) * advantage * live.exp()

    return instead(loss)


BREAKS = [
    Break("sign", "turned over where A < 0", "flipped_clip", "loss", aspo_with(turned=False)),
    Break("bound", "dropped by the weight", "flipped_clip", "loss", aspo_with(drops_by_weight=True)),
    Break("bound", "no largest weight", "flipped_clip", "most", always(1e30)),
    Break("detach", "weight differentiated", "flipped_clip", "loss", aspo_with(detached=False)),
]
