"""PPO's clipped surrogate (Schulman et al., arXiv:1707.06347, eq. 7).

    l_it = -min( r_it A_it, clip(r_it, 1 - low, 1 + high) A_it )

Without dual_clip a negative advantage pushes with the whole ratio, up to e^20 |A|, and beyond the ratio's clamp not at
all.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.kinds import Bounds, Surrogate
from objectives.lazy import Tensor, torch
from objectives.part import parameter
from objectives.zoo import register


@register
@dataclass(frozen=True)
class Clip(Surrogate):
    """Pessimistic minimum of the ratio's and the clipped ratio's objective; symmetric unless modified."""

    name = "clip"
    paper = "arXiv:1707.06347"
    troubles = ("many_epochs",)
    reads_bounds = frozenset({"low", "high", "cap"})
    low: float = parameter(0.2, "[0, 1]", "the ratio is clipped to 1 - low below, and to 1 + low above")

    def bounds(self, batch: TokenBatch) -> Bounds:
        return Bounds(self.low, self.low)

    def loss(
        self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Mapping[str, Tensor]
    ) -> Tensor:
        lower, upper, cap = (_like(bound, ratio) for bound in (1 - bounds.low, 1 + bounds.high, bounds.cap))
        bound = torch.where(advantage > 0, upper, torch.where(ratio < lower, lower, cap))
        return -advantage * torch.where(self.clips(ratio, advantage, bounds), bound, ratio)

    def clips(self, ratio: Tensor, advantage: Tensor, bounds: Bounds) -> Tensor:
        outside = (advantage < 0) & ((ratio < 1 - bounds.low) | (ratio > bounds.cap))
        return outside | (advantage > 0) & (ratio > 1 + bounds.high)

    def numbers(self) -> Mapping[str, str]:
        return {"low": f"{1 - self.low:g}", "high": f"{1 + self.low:g}"}

    def formula(self) -> str:
        return self.equation(self.numbers())

    def equation(self, numbers: Mapping[str, str]) -> str:
        inner = f"min(r A, clip(r, {numbers['low']}, {numbers['high']}) A)"
        return f"max({inner}, {numbers['cap']} min(A, 0))" if "cap" in numbers else inner


def _like(bound: float | Tensor, ratio: Tensor) -> Tensor:
    return bound.to(ratio) if isinstance(bound, Tensor) else ratio.new_full((), bound)
