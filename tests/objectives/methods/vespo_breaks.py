"""Mistakes that one could make in VESPO."""

from typing import Any

import torch
from torch import Tensor

from objectives import Bounds
from tests.objectives.breaks import Break, always, given, instead


def differentiated(self: Any, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Any) -> Tensor:
    k, rate = torch.where(advantage < 0, 3.0, 2.0), torch.where(advantage < 0, 2.0, 3.0)
    return -(rate + k * ratio.log() - rate * ratio).exp() * advantage


BREAKS = [
    Break("sign", "the inverse weight", "gamma_gate", "loss", given(lambda ratio, *more: (1 / ratio, *more))),
    Break("bound", "another power", "gamma_gate", "k_good", always(3.0)),
    Break("bound", "another rate", "gamma_gate", "l_bad", always(3.0)),
    Break("scope", "geometric mean", "sequence_ratio", "norm", always("mean")),
    Break("detach", "weight differentiated", "gamma_gate", "loss", instead(differentiated)),
]
