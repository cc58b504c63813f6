"""Mistakes that one could make in SAPO."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from objectives import Bounds
from tests.objectives.breaks import Break, Wrong, always, instead


def gate(function: Callable[[Tensor, Tensor], Tensor]) -> Wrong:
    """The surrogate with another function of ratio and tau."""

    def loss(self: Any, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Any) -> Tensor:
        tau = torch.where(advantage > 0, advantage.new_tensor(self.tau_pos), advantage.new_tensor(self.tau_neg))
        return -function(ratio, tau) * advantage

    return instead(loss)


BREAKS = [
    Break(
        "sign", "gate closed by small ratios", "soft_gate", "loss", gate(lambda r, t: 4 / t * (t * (1 - r)).sigmoid())
    ),
    Break("bound", "one temperature for both signs", "soft_gate", "tau_neg", always(1.0)),
    Break("denominator", "slope not one", "soft_gate", "loss", gate(lambda r, t: 4 * (t * (r - 1)).sigmoid())),
    Break("scope", "gate of the log-ratio", "soft_gate", "loss", gate(lambda r, t: 4 / t * (t * r.log()).sigmoid())),
    Break(
        "detach",
        "gate as a detached weight",
        "soft_gate",
        "loss",
        gate(lambda r, t: (4 / t * (t * (r - 1)).sigmoid()).detach() * r / r.detach()),
    ),
]
