"""Entropy bonus (Mnih et al., arXiv:1602.01783): a reward for keeping the next-token distribution wide.

L -= coefficient * mean of H_it, differentiated through the full-vocabulary entropy
"""

from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.errors import ObjectiveError
from objectives.kinds import Penalty
from objectives.lazy import Tensor
from objectives.part import parameter
from objectives.zoo import register


@register
@dataclass(frozen=True)
class EntropyBonus(Penalty):
    """Adds the policy's entropy to the objective."""

    name = "entropy_bonus"
    paper = "arXiv:1602.01783"
    troubles = ("entropy_collapse", "diversity")
    needs_entropy_gradient = True
    coefficient: float = parameter(0.001, "(-inf, inf)", "weight of the entropy in the objective")

    def penalty(self, rows: TokenBatch, logp: Tensor, entropy: Tensor | None) -> Tensor:
        if entropy is None:
            raise ObjectiveError("entropy_bonus: the loss was called without the policy's entropy")
        return -self.coefficient * entropy

    def formula(self) -> str:
        return f"{'-' if self.coefficient >= 0 else '+'} {abs(self.coefficient):g} * H"
