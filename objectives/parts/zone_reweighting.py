"""HAPO's weight (Liu et al., arXiv:2509.16591, part C).

    1 + beta h  where h > 0 and p/p_old is outside the half widths, or h <= 0 and r is inside them;  1 elsewhere

h in [-1, 1] says how unsure a token is (entropy_height.py). The weight has the clip's widths as parameters of its own;
beside each other the two must have the same. Deviation: log-ratios are clamped to [-20, 20].
"""

from dataclasses import dataclass

from objectives.batch import TokenBatch, scope_reads
from objectives.kinds import Weight
from objectives.lazy import Tensor, torch
from objectives.part import parameter
from objectives.parts.entropy_height import ByEntropy
from objectives.parts.token_ratio import log_ratio
from objectives.zoo import register


@register
@dataclass(frozen=True)
class ZoneReweighting(ByEntropy, Weight):
    """Weighs unsure tokens that have moved more, and sure tokens that have not moved less."""

    name = "zone_reweighting"
    troubles = ("credit",)
    planned = True
    beta: float = parameter(1.0, "[0, 1]", "how much of h the weight follows")

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"logp", "logp_old", "entropy"}) | scope_reads(self.scope)

    def weight(self, batch: TokenBatch) -> Tensor:
        height = self.height(batch)
        low, high = self.widths(height)
        ratio = log_ratio(batch, batch.require("logp", self.name), self.name).exp()
        inside = (ratio > 1 - low / 2) & (ratio < 1 + high / 2)
        return torch.where((height > 0) != inside, 1 + self.beta * height, 1.0)

    def formula(self) -> str:
        low, high = self.written_bounds(0.5)
        return (
            f"A *= 1 + {self.beta:g} h where h > 0 and p/p_old is outside {low} .. {high}, or h <= 0 and it is inside"
        )
