"""AGPO: adaptive group policy optimisation, version 1 (Li et al., arXiv:2503.15952).

    A_i = 1 where all responses of the group are right and their rewards equal, -1 where all are wrong and they are;
    (R_i - mean_group) / std_group in all other groups

Groups that teach GRPO nothing push as wholes. dynamic_sampling takes that away again. Left out: version 1's length
reward, and the loss mask and clip that later versions have instead, of which no equations are known here.
Another AGPO (arXiv:2605.20722) adapts clip and temperature and is not this.
"""

from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.groups import group_index, group_is_constant, group_mean
from objectives.lazy import Tensor, torch
from objectives.methods.grpo import GRPO
from objectives.part import Part
from objectives.parts.group_norm import GroupNorm
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class Agpo(GroupNorm):
    """GRPO's advantage, but 1 for groups that are right as a whole, -1 for those that are wrong."""

    name = "agpo"
    paper = "arXiv:2503.15952"
    troubles = ("dead_groups", "zero_loss")
    reads = frozenset({"reward", "group", "correct"})
    centred = False

    def of(self, batch: TokenBatch) -> Tensor:
        advantage, reward = super().of(batch), batch.require("reward", self.name)
        index, groups = group_index(batch.require("group", self.name))
        success = group_mean(batch.require("correct", self.name).to(reward), index, groups)[index]
        equal = group_is_constant(reward, index, groups)
        whole = torch.where(success == 1, 1.0, torch.where(success == 0, -1.0, 0.0)).to(reward)
        return torch.where(equal, whole, advantage)

    def formula(self) -> str:
        return f"{super().formula()}, but 1 or -1 where all are right or wrong and earn the same"


_OTHERS: tuple[Part, ...] = tuple(part for part in GRPO if not isinstance(part, GroupNorm))

recipe(
    "agpo",
    paper="arXiv:2503.15952",
    summary="GRPO in which groups that are right or wrong as a whole push as well",
    variants={"paper": (*_OTHERS, Agpo())},
    contribution=("agpo",),
    doc=__doc__,
)
