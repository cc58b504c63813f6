"""CE-GPPO: PPO's clip that keeps a gradient outside (Su et al., arXiv:2509.20712).

    g = beta1 (1 - low) A   where A < 0 and r < 1 - low
    g = beta2 (1 + high) A  where A > 0 and r > 1 + high,   r A elsewhere;   0 where A < 0 and r > 10

g is what grad log pi is multiplied by. beta1 is 0.5 for 1.5B models and 0.75 for 7B (0.25 in the code's configuration);
beta1 = beta2 = 0 has PPO's gradient. An upper bound that it is added to (clip_higher) moves the edge and the gradient
there. Deviations: the dual clip's value counts, as in clip. The same code's GPPO (arXiv:2508.07629) is not this.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from objectives.batch import TokenBatch
from objectives.kinds import Bounds, Surrogate
from objectives.part import parameter
from objectives.parts.dual_clip import DualClip
from objectives.parts.dynamic_sampling import DynamicSampling
from objectives.parts.group_norm import GroupNorm
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class GradientPreservingClip(Surrogate):
    """Clipped objective in which a token outside keeps a share of the gradient that it has at the bound."""

    name = "gradient_preserving_clip"
    paper = "arXiv:2509.20712"
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
        kept = torch.where(below, self.beta1 * (1 - bounds.low) * step, ratio)
        kept = torch.where(above, self.beta2 * (1 + bounds.high) * step, kept)
        cap = torch.as_tensor(bounds.cap, dtype=ratio.dtype, device=ratio.device)
        return -advantage * torch.where((advantage < 0) & (ratio > cap), cap, kept)

    def clips(self, ratio: Tensor, advantage: Tensor, bounds: Bounds) -> Tensor:
        return (advantage < 0) & (ratio > bounds.cap)

    def numbers(self) -> Mapping[str, str]:
        return {"low": f"{1 - self.low:g}", "high": f"{1 + self.low:g}"}

    def equation(self, numbers: Mapping[str, str]) -> str:
        lower, upper = f"{self.beta1:g} * {numbers['low']}", f"{self.beta2:g} * {numbers['high']}"
        cap = f", 0 where A < 0 above {numbers['cap']}" if "cap" in numbers else ""
        return f"(r, with gradient {lower} below where A < 0, {upper} above where A > 0{cap}) A"

    def formula(self) -> str:
        return self.equation(self.numbers())


recipe(
    "ce_gppo",
    paper="arXiv:2509.20712",
    summary="a clip outside of which tokens keep a bounded gradient",
    variants={
        "paper": (
            DynamicSampling(),
            GroupNorm(),
            TokenRatio(),
            GradientPreservingClip(),
            DualClip(cap=10.0),
            TokenMean(),
            SinglePass(),
        ),
    },
    contribution=("gradient_preserving_clip", "dual_clip"),
    doc=__doc__,
)
