"""RLOO's baseline (Ahmadian et al., arXiv:2402.14740): what the other responses to the prompt earn.

A_i = R_i - mean_{j != i} R_j = G / (G - 1) (R_i - mean_group)
"""

from dataclasses import dataclass

from objectives.groups import group_centred, group_index, group_sum
from objectives.kinds import Advantage
from objectives.lazy import Tensor, torch
from objectives.zoo import register


@register
@dataclass(frozen=True)
class LeaveOneOut(Advantage):
    """Reward minus the mean of the group's other rewards; exactly zero where they are equal up to rounding."""

    name = "leave_one_out"
    paper = "arXiv:2402.14740"
    troubles = ("few_responses", "mixed_difficulty")
    minimum_group = 2

    def advantage(self, reward: Tensor, group: Tensor) -> Tensor:
        index, groups = group_index(group)
        size = group_sum(torch.ones_like(reward), index, groups)
        return group_centred(reward, index, groups) * (size / (size - 1))[index]

    def formula(self) -> str:
        return "A = R - mean over the group's others"
