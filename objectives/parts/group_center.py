"""Dr. GRPO's advantage (Liu et al., Understanding R1-Zero-Like Training, arXiv:2503.20783).

    A_i = R_i - mean_group

The standard deviation is left out, because it weighs easy and hard prompts more than the others.
"""

from dataclasses import dataclass

from objectives.groups import group_centred, group_index
from objectives.kinds import Advantage
from objectives.lazy import Tensor
from objectives.zoo import register


@register
@dataclass(frozen=True)
class GroupCenter(Advantage):
    """Reward minus the group's mean; exactly zero where the two are equal up to rounding."""

    name = "group_center"
    paper = "arXiv:2503.20783"
    troubles = ("mixed_difficulty",)
    minimum_group = 2

    def advantage(self, reward: Tensor, group: Tensor) -> Tensor:
        return group_centred(reward, *group_index(group))

    def formula(self) -> str:
        return "A = R - mean over the group"
