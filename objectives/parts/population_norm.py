"""TPO's score of a response (Kaddour, arXiv:2604.06159, appendix A).

    A_i = (R_i - mean_group) / std_group,   std with ddof 0

group_norm divides by the deviation with ddof 1, which is larger by sqrt(G / (G - 1)), and adds 1e-6 to it. A reward
equal to its group's mean up to rounding has an advantage of exactly zero.
"""

from dataclasses import dataclass

from objectives.groups import group_centred, group_index, group_mean
from objectives.kinds import Advantage
from objectives.lazy import Tensor, torch
from objectives.zoo import register


@register
@dataclass(frozen=True)
class PopulationNorm(Advantage):
    """Reward minus the group's mean, over the group's standard deviation (ddof 0)."""

    name = "population_norm"
    paper = "arXiv:2604.06159"
    minimum_group = 2

    def advantage(self, reward: Tensor, group: Tensor) -> Tensor:
        index, groups = group_index(group)
        centred = group_centred(reward, index, groups)
        return torch.where(centred == 0, 0.0, centred / group_mean(centred.square(), index, groups).sqrt()[index])

    def formula(self) -> str:
        return "A = (R - mean) / std over the group, ddof 0"
