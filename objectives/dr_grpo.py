"""Dr. GRPO's advantage (Liu et al., Understanding R1-Zero-Like Training, arXiv:2503.20783).

    A_i = R_i - mean_group

The standard deviation is left out, because it weighs easy and hard prompts more than the others.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from objectives.groups import group_index, group_is_constant, group_mean
from objectives.part import Advantage
from objectives.zoo import register


@register
@dataclass(frozen=True)
class GroupCenter(Advantage):
    """Reward minus the group's mean; exactly zero where the rewards of a group are equal."""

    name = "group_center"
    paper = "arXiv:2503.20783"
    minimum_group = 2

    def advantage(self, reward: Tensor, group: Tensor) -> Tensor:
        index, groups = group_index(group)
        centred = reward - group_mean(reward, index, groups)[index]
        return torch.where(group_is_constant(reward, index, groups), 0.0, centred)

    def formula(self) -> str:
        return "A = R - mean over the group"
