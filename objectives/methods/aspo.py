"""ASPO: asymmetric importance sampling (Wang et al., arXiv:2510.06062).

    A > 0:  g = min(1/r, 3) A,  0 where r > 1 + high;      A < 0:  g = min(r, 3) A,  0 where r < 1 - low

g is what grad log pi is multiplied by. PPO weighs a good token by r, most where it is probable already; here the weight
is turned over. It is bounded, but not cut off, at 3. Tokens are dropped by the ratio itself, not by the weight, and
stay in the denominator. With the paper's KL to the reference, k3, 0.001.
Left out: the code widens both bounds to 0.4 for tokens of high entropy, of which the paper says nothing.
Deviations: the loss is -w A exp(log pi - sg[log pi]), of the same gradient and a value that can be compared.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.kinds import Bounds, Surrogate
from objectives.lazy import Tensor, torch
from objectives.part import parameter
from objectives.parts.group_norm import GroupNorm
from objectives.parts.kl import KL
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class FlippedClip(Surrogate):
    """Policy gradient weighed by 1/r where A > 0 and by r where A < 0, both bounded, none beyond PPO's bounds."""

    name = "flipped_clip"
    paper = "arXiv:2510.06062"
    troubles = ("entropy_collapse",)
    reads_bounds = frozenset({"low", "high"})
    low: float = parameter(0.2, "[0, 1]", "tokens are dropped below 1 - low where A < 0, above 1 + low where A > 0")
    most: float = parameter(3.0, "[1, inf)", "largest weight")

    def bounds(self, batch: TokenBatch) -> Bounds:
        return Bounds(self.low, self.low)

    def loss(
        self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Mapping[str, Tensor]
    ) -> Tensor:
        weight = torch.where(advantage > 0, 1 / ratio.detach(), ratio.detach()).clamp(max=self.most)
        live = torch.where(self.clips(ratio, advantage, bounds), 0.0, logp - logp.detach())
        return -weight * advantage * live.exp()

    def clips(self, ratio: Tensor, advantage: Tensor, bounds: Bounds) -> Tensor:
        below, above = ratio < 1 - bounds.low, ratio > 1 + bounds.high
        return (advantage < 0) & below | (advantage > 0) & above

    def numbers(self) -> Mapping[str, str]:
        return {"low": f"{1 - self.low:g}", "high": f"{1 + self.low:g}"}

    def equation(self, numbers: Mapping[str, str]) -> str:
        good = f"sg[min(1/r, {self.most:g})] where A > 0 and r <= {numbers['high']}"
        return f"({good}, sg[min(r, {self.most:g})] where A < 0 and r >= {numbers['low']}) A log p"

    def formula(self) -> str:
        return self.equation(self.numbers())


recipe(
    "aspo",
    paper="arXiv:2510.06062",
    summary="importance weights turned over where the advantage is positive",
    variants={"paper": (GroupNorm(), TokenRatio(), FlippedClip(), TokenMean(), KL(beta=0.001), SinglePass())},
    contribution=("flipped_clip",),
    doc=__doc__,
)
