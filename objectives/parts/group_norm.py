"""GRPO's advantage (Shao et al., DeepSeekMath, arXiv:2402.03300, section 4.1.2).

    A_i = (R_i - mean_group) / (std_group + eps)

Open in the paper, and the reading taken: std with ddof 1 and 1e-6 added (verl; the printed advantages of later papers
confirm ddof 1). Deviations: a reward equal to its group's mean up to rounding, and so every reward of an equal-reward
group, has an advantage of exactly zero.
"""

from dataclasses import dataclass

from objectives.groups import group_centred, group_deviation, group_index
from objectives.kinds import Advantage
from objectives.lazy import Tensor, torch
from objectives.part import parameter
from objectives.zoo import register


@register
@dataclass(frozen=True)
class GroupNorm(Advantage):
    """Reward minus the group's mean, over the group's standard deviation (ddof 1)."""

    name = "group_norm"
    paper = "arXiv:2402.03300"
    minimum_group = 2
    eps: float = parameter(1e-6, "[0, inf)", "added to the standard deviation")

    def advantage(self, reward: Tensor, group: Tensor) -> Tensor:
        index, groups = group_index(group)
        centred = group_centred(reward, index, groups)
        deviation = group_deviation(centred, index, groups)
        return torch.where(centred == 0, 0.0, centred / (deviation + self.eps)[index])

    def formula(self) -> str:
        return f"A = (R - mean) / (std + {self.eps:g}) over the group"
