"""Position shaping (Deng et al., Decomposing the Entropy-Performance Exchange, arXiv:2508.02260), as its code has it.

    A'_it = A_i + sign(A_i) min( gamma sigmoid( 15 (s_it - 1/2) ), |A_i| / 2 ),   gamma = 0.1

s is a token's place in its response, from 0 to 1: the tokens before it over all. Late tokens count more, right or
wrong. On DAPO, with all its parts. Their trainer turns it on for steps 201 to 299 alone; here it is on throughout.
Variant authors: token mean per micro-batch, weighted by its responses.
"""

from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.kinds import Weight
from objectives.lazy import Tensor, torch
from objectives.methods.dapo import BUT_THE_MEAN
from objectives.part import parameter
from objectives.parts.token_mean import TokenMean
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class PositionBonus(Weight):
    """Adds to the size of the advantage towards the end of a response."""

    name = "position_bonus"
    paper = "arXiv:2508.02260"
    troubles = ("credit",)
    additive = True
    gamma: float = parameter(0.1, "[0, inf)", "what is added at the very end, nearly")
    slope: float = parameter(15.0, "[0, inf)", "how sharply it rises in the middle")

    def weight(self, batch: TokenBatch) -> Tensor:
        advantage = batch.require("advantage", self.name)
        before = batch.mask.cumsum(1) - 1
        place = before / batch.mask.sum(1, keepdim=True).clamp(min=1).to(advantage)
        bonus = self.gamma * torch.sigmoid(self.slope * (place - 0.5))
        return torch.where(batch.mask, advantage.sign() * torch.minimum(bonus, advantage.abs() / 2), 0.0)

    def formula(self) -> str:
        return f"A += sign(A) min({self.gamma:g} sigmoid({self.slope:g} (place - 0.5)), |A| / 2)"

    def where(self) -> str:
        return "place = tokens of the response before it, over all of them"


recipe(
    "position_shaping",
    paper="arXiv:2508.02260",
    summary="late tokens of a response count more",
    variants={
        "paper": (*BUT_THE_MEAN, PositionBonus(), TokenMean()),
        "authors": (*BUT_THE_MEAN, PositionBonus(), TokenMean(scope="microbatch")),
    },
    contribution=("position_bonus",),
    doc=__doc__,
)
