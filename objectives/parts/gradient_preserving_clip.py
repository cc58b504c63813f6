"""CE-GPPO's clip that keeps a gradient outside (Su et al., arXiv:2509.20712); see the recipe `ce_gppo`."""

from collections.abc import Mapping
from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.kinds import Bounds, Surrogate
from objectives.lazy import Tensor, torch
from objectives.part import parameter
from objectives.zoo import register


@register
@dataclass(frozen=True)
class GradientPreservingClip(Surrogate):
    """Clipped objective in which a token outside keeps a share of the gradient that it has at the bound."""

    name = "gradient_preserving_clip"
    paper = "arXiv:2509.20712"
    troubles = ("entropy_collapse", "entropy_explosion")
    reads_bounds = frozenset({"low", "high", "cap"})
    low: float = parameter(0.2, "[0, 1]", "the ratio is clipped to 1 - low below, and to 1 + low above")
    beta1: float = parameter(0.5, "[0, inf)", "share of the gradient below the lower bound where A < 0")
    beta2: float = parameter(1.0, "[0, inf)", "share of the gradient above the upper bound where A > 0")

    def bounds(self, batch: TokenBatch) -> Bounds:
        return Bounds(self.low, self.low)

    def loss(
        self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Mapping[str, Tensor]
    ) -> Tensor:
        step = (logp - logp.detach()).exp()
        below, above = (advantage < 0) & (ratio < 1 - bounds.low), (advantage > 0) & (ratio > 1 + bounds.high)
        edge = torch.where(below, self.beta1 * (1 - bounds.low), ratio.detach())
        edge = torch.where(above, self.beta2 * (1 + bounds.high), edge)
        kept = torch.where(below | above, edge * step, ratio)
        return -advantage * torch.where((advantage < 0) & (ratio > bounds.cap), bounds.cap, kept)

    def clips(self, ratio: Tensor, advantage: Tensor, bounds: Bounds) -> Tensor:
        return (advantage < 0) & (ratio > bounds.cap)

    def numbers(self) -> Mapping[str, str]:
        return {"low": f"{1 - self.low:g}", "high": f"{1 + self.low:g}"}

    def equation(self, numbers: Mapping[str, str]) -> str:
        low, high = numbers["low"], numbers["high"]
        below = f"{self.beta1:g} * {low} p / sg[p] where A < 0 and r < {low}"
        above = f"{self.beta2:g} * {high} p / sg[p] where A > 0 and r > {high}"
        cap = f", {numbers['cap']} where A < 0 and r > {numbers['cap']}" if "cap" in numbers else ""
        return f"({below}, {above}{cap}, r elsewhere) A"

    def formula(self) -> str:
        return self.equation(self.numbers())
