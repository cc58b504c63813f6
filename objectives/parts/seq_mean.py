"""GRPO's denominators (Shao et al., arXiv:2402.03300, eq. 3)."""

from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.kinds import Aggregate
from objectives.lazy import Tensor
from objectives.zoo import register


@register
@dataclass(frozen=True)
class SeqMean(Aggregate):
    """Mean over the tokens of each response, then over responses."""

    name = "seq_mean"
    paper = "arXiv:2402.03300"

    def coefficients(self, batch: TokenBatch, counted: Tensor) -> Tensor:
        responses = batch.mask.any(1).sum().clamp(min=1)
        tokens = counted.sum(1, keepdim=True).clamp(min=1).to(batch.require("advantage", self.name))
        return (1 / (responses * tokens)).expand(batch.mask.shape)

    def formula(self) -> str:
        return "L = mean over responses of the mean over tokens"
