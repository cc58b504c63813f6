"""Lite PPO (Liu et al., Part I: Tricks or Traps?, arXiv:2508.08221): PPO's clip without a critic, and two tricks.

    A_i = (R_i - mean_group) / (std_batch + 1e-4);  clip(0.2), mean over all tokens

The deviation is that of all rewards of the step, ddof 1, before anything is taken off, as in TRL (scale_rewards=batch):
not that of the centred rewards, which center_then_global_norm takes, and every response counts the same.
"""

from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.groups import centred, group_centred, group_index, group_is_there
from objectives.kinds import Advantage
from objectives.lazy import Tensor
from objectives.part import parameter
from objectives.parts.clip import Clip
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class CenterBatchStd(Advantage):
    """Reward minus the group's mean, over the standard deviation (ddof 1) of the batch's rewards."""

    name = "center_batch_std"
    paper = "arXiv:2508.08221"
    troubles = ("few_responses",)
    minimum_group = 2
    eps: float = parameter(1e-4, "[0, inf)", "added to the standard deviation")

    def advantage(self, reward: Tensor, group: Tensor) -> Tensor:
        return group_centred(reward, *group_index(group))

    def of(self, batch: TokenBatch) -> Tensor:
        above, reward = super().of(batch), batch.require("reward", self.name)
        index, groups = group_index(batch.require("group", self.name))
        there = group_is_there(batch.mask, index, groups).to(reward)
        variance = (there * centred(reward, there).square()).sum() / (there.sum() - 1).clamp(min=1)
        return above.where(above == 0, above / (variance.sqrt() + self.eps))

    def formula(self) -> str:
        return f"A = (R - mean over the group) / (std over the batch + {self.eps:g})"


recipe(
    "lite_ppo",
    paper="arXiv:2508.08221",
    summary="group means taken off, the deviation of all rewards divides; mean over all tokens",
    variants={"paper": (CenterBatchStd(), TokenRatio(), Clip(), TokenMean(), SinglePass())},
    contribution=("center_batch_std", "token_mean"),
    doc=__doc__,
)
