"""HAPO's advantage (Liu et al., arXiv:2509.16591, part B): a group's z-score over its tokens instead of its responses.

    A_i = (R_i - mean) / (std + 1e-6)       mean and std (ddof 0) over all tokens of the group, each with its R_i

A group in which some |A| reaches `guard` has group_norm's advantages instead. The code looks for that on padding as
well; here only on responses with tokens. A reward equal to the mean up to rounding has an advantage of exactly zero.
"""

from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.groups import group_index, group_sum
from objectives.lazy import Tensor, torch
from objectives.part import parameter
from objectives.parts.group_norm import GroupNorm
from objectives.zoo import register


@register
@dataclass(frozen=True)
class TokenGroupNorm(GroupNorm):
    """Reward minus the group's mean over its standard deviation, both over tokens, unless that makes one too large."""

    name = "token_group_norm"
    paper = "arXiv:2509.16591"
    guard: float = parameter(5.0, "(0, inf)", "largest advantage; groups with a larger one have the z-score of rewards")

    def of(self, batch: TokenBatch) -> Tensor:
        reward, (index, groups) = batch.require("reward", self.name), group_index(batch.require("group", self.name))
        tokens = batch.mask.sum(1).to(reward)
        total = group_sum(tokens, index, groups).clamp(min=1)
        centred = reward - (group_sum(tokens * reward, index, groups) / total)[index]
        largest = reward.new_zeros(groups).scatter_reduce(0, index, reward.abs(), "amax")
        rounding = total * largest * torch.finfo(reward.dtype).eps
        centred = centred.where(centred.abs() > rounding[index], 0.0)
        deviation = (group_sum(tokens * centred.square(), index, groups) / total).sqrt()
        advantage = centred / (deviation + self.eps)[index]
        return torch.where(self._guarded(advantage, tokens, index, groups), super().of(batch), advantage)

    def _guarded(self, advantage: Tensor, tokens: Tensor, index: Tensor, groups: int) -> Tensor:
        size = torch.where(tokens > 0, advantage.abs(), 0.0)
        return advantage.new_zeros(groups).scatter_reduce(0, index, size, "amax")[index] >= self.guard

    def formula(self) -> str:
        where = f"over the group's tokens, or over its responses where some |A| >= {self.guard:g}"
        return f"A = (R - mean) / (std + {self.eps:g}) {where}"
