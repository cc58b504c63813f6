"""The denominator of sequence-level policy gradients (RLOO, Ahmadian et al., arXiv:2402.14740).

L = (1/N) sum_i sum_t l_it
"""

from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.kinds import Aggregate
from objectives.lazy import Tensor, torch
from objectives.zoo import register


@register
@dataclass(frozen=True)
class SeqSum(Aggregate):
    """Sum over the tokens of each response, then the mean over responses."""

    name = "seq_sum"
    paper = "arXiv:2402.14740"
    troubles = ("length_growth",)

    def coefficients(self, batch: TokenBatch, counted: Tensor) -> Tensor:
        responses = batch.mask.any(1).sum().clamp(min=1)
        return torch.ones_like(batch.require("advantage", self.name)) / responses

    def formula(self) -> str:
        return "L = mean over responses of the sum over tokens"
