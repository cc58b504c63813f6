"""Mistakes that one could make in CISPO."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from objectives import Bounds
from tests.objectives.breaks import Break, Wrong, always, instead


def cispo_with(weight: Callable[[Any, Tensor], Tensor]) -> Wrong:
    def loss(self: Any, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Any) -> Tensor:
        return -weight(self, ratio) * advantage * (logp - logp.detach()).exp()

    return instead(loss)


BREAKS = [
    Break(
        "sign",
        "inverse weight",
        "cispo",
        "loss",
        cispo_with(lambda self, r: (1 / r.detach()).clamp(1 - self.low, 1 + self.high)),
    ),
    Break(
        "bound",
        "upper width absolute",
        "cispo",
        "loss",
        cispo_with(lambda self, r: r.detach().clamp(1 - self.low, self.high)),
    ),
    Break("bound", "lower bound of PPO", "cispo", "low", always(0.2)),
    Break(
        "detach",
        "weight differentiated",
        "cispo",
        "loss",
        cispo_with(lambda self, r: r.clamp(1 - self.low, 1 + self.high)),
    ),
]
