"""GPG: group policy gradient (Chu et al., arXiv:2504.02546).

    J = 1 / sum_i |y_i|  sum_i sum_t A_i log pi(y_it),   A_i = B / (B - M) (R_i - mean_group)          (eq. 5)

M of the B responses of a step are in groups of equal rewards; what is left is scaled up for them. No ratio, no clip, no
deviation: right for one update per rollout only. With dynamic_sampling the factor is 1.
Deviations: the authors sample again until a share of the groups (0.4 to 0.6) has rewards that differ.
Variant authors (open-r1's trainer): the same. Variant verl: the share is that of the rewards that are not zero, whether
their groups differ or not.
"""

from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.groups import group_centred, group_index, group_is_constant, group_is_there
from objectives.kinds import Advantage
from objectives.lazy import Tensor
from objectives.part import parameter
from objectives.parts.reinforce import Reinforce
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class ScaledCenter(Advantage):
    """Reward minus the group's mean, over the share of the batch's responses that have something to learn from."""

    name = "scaled_center"
    paper = "arXiv:2504.02546"
    troubles = ("dead_groups", "zero_loss")
    minimum_group = 2
    eps: float = parameter(0.0, "[0, inf)", "added to the share")
    counts: str = parameter("differing", ("differing", "rewarded"), "rows in groups that differ, or with a reward")

    def advantage(self, reward: Tensor, group: Tensor) -> Tensor:
        return group_centred(reward, *group_index(group))

    def of(self, batch: TokenBatch) -> Tensor:
        centred, reward = super().of(batch), batch.require("reward", self.name)
        index, groups = group_index(batch.require("group", self.name))
        there = group_is_there(batch.mask, index, groups)
        counted = reward != 0 if self.counts == "rewarded" else ~group_is_constant(reward, index, groups)
        share = (there & counted).sum().clamp(min=1).to(reward) / there.sum().clamp(min=1)
        return centred / (share + self.eps)

    def formula(self) -> str:
        what = {"differing": "in groups whose rewards differ", "rewarded": "whose reward is not 0"}[self.counts]
        return f"A = (R - mean over the group) / (share of responses {what}{f' + {self.eps:g}' if self.eps else ''})"


recipe(
    "gpg",
    paper="arXiv:2504.02546",
    summary="plain policy gradient of centred rewards, scaled up for the groups that teach nothing",
    variants={
        "paper": (ScaledCenter(), TokenRatio(), Reinforce(), TokenMean(), SinglePass()),
        "authors": (ScaledCenter(), TokenRatio(), Reinforce(), TokenMean(), SinglePass()),
        "verl": (ScaledCenter(counts="rewarded"), TokenRatio(), Reinforce(), TokenMean(), SinglePass()),
    },
    contribution=("scaled_center", "reinforce"),
    doc=__doc__,
)
