"""Dr. GRPO's denominator (Liu et al., arXiv:2503.20783): the same for every token, whatever the responses' lengths.

L = (1/N) sum_i (1/length) sum_t l_it
"""

from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.kinds import Aggregate
from objectives.lazy import Tensor, torch
from objectives.part import parameter
from objectives.zoo import register


@register
@dataclass(frozen=True)
class ConstantLength(Aggregate):
    """Sum over the tokens of each response over a constant, then the mean over responses."""

    name = "constant_length"
    paper = "arXiv:2503.20783"
    troubles = ("length_growth",)
    length: int | None = parameter(None, "[1, inf)", "the constant in tokens; none: the run's response limit")

    @property
    def needs(self) -> frozenset[str]:
        return frozenset() if self.length else frozenset({"max_length"})

    def coefficients(self, batch: TokenBatch, counted: Tensor) -> Tensor:
        batch.require_all(self.needs, self.name)
        responses = batch.mask.any(1).sum().clamp(min=1)
        length = self.length or batch.max_length
        assert length is not None
        return torch.ones_like(batch.require("advantage", self.name)) / (responses * length)

    def formula(self) -> str:
        return f"L = mean over responses of the sum over tokens / {self.length or 'limit'}"
