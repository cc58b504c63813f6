"""OPO: on-policy RL with the optimal reward baseline (Hao et al., arXiv:2505.23585).

    J = (1/N) sum_i sum_t A_i log pi(y_it),   A_i = R_i - b,   b = sum_j |y_j| R_j / sum_j |y_j| over the group

The baseline of least variance if a response's squared gradient grows with its length. No deviation, no KL, no entropy
bonus, no ratio: exactly on-policy, one update per rollout. |y| are the tokens that the loss sees.
Open: the denominator; the baseline is that of a sum over tokens, which is taken here.
Variant verl: the advantage in its PPO loss, clip(0.2) and dual_clip(cap=3), mean over all tokens.
"""

from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.groups import group_centred, group_index, group_sum
from objectives.kinds import Advantage
from objectives.lazy import Tensor
from objectives.parts.clip import Clip
from objectives.parts.dual_clip import DualClip
from objectives.parts.reinforce import Reinforce
from objectives.parts.seq_sum import SeqSum
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class OptimalBaseline(Advantage):
    """Reward minus the group's mean weighed by length; exactly zero where all rewards of the group are equal."""

    name = "optimal_baseline"
    paper = "arXiv:2505.23585"
    troubles = ("few_responses",)
    minimum_group = 2

    def advantage(self, reward: Tensor, group: Tensor) -> Tensor:
        return group_centred(reward, *group_index(group))

    def of(self, batch: TokenBatch) -> Tensor:
        centred = super().of(batch)
        index, groups = group_index(batch.require("group", self.name))
        length = batch.mask.sum(1).to(centred)
        baseline = group_sum(length * centred, index, groups) / group_sum(length, index, groups).clamp(min=1)
        return centred - baseline[index]

    def formula(self) -> str:
        return "A = R - sum |y| R / sum |y| over the group"


recipe(
    "opo",
    paper="arXiv:2505.23585",
    summary="plain policy gradient with the baseline of least variance, a mean weighed by length",
    variants={
        "paper": (OptimalBaseline(), TokenRatio(), Reinforce(), SeqSum(), SinglePass()),
        "verl": (OptimalBaseline(), TokenRatio(), Clip(), DualClip(), TokenMean(), SinglePass()),
    },
    contribution=("optimal_baseline",),
    doc=__doc__,
)
