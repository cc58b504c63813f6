"""MaxRL: maximum-likelihood reinforcement learning (Tajwar et al., arXiv:2602.02710).

    A_i = (c_i - mean_group) / (mean_group + 1e-6),  0 where no response is right;  clip(0.2), mean over all tokens

c is correctness: in expectation the gradient of log mean, not of the mean, so that hard prompts weigh more. Clip and
denominator are those of the authors' runs, one update per rollout. Deviations: correctness stands for the reward, which
must not be negative here; so nothing that shapes rewards goes with it (soft_overlong, kl_reward).
"""

from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.groups import group_centred, group_index, group_mean
from objectives.kinds import Advantage
from objectives.lazy import Tensor, torch
from objectives.part import parameter
from objectives.parts.clip import Clip
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class MeanNorm(Advantage):
    """Correctness minus the group's mean, over that mean."""

    name = "mean_norm"
    paper = "arXiv:2602.02710"
    troubles = ("hard_problems", "diversity")
    reads = frozenset({"correct", "group"})
    minimum_group = 2
    eps: float = parameter(1e-6, "[0, inf)", "added to the mean")

    def of(self, batch: TokenBatch) -> Tensor:
        return self.advantage(batch.require("correct", self.name), batch.require("group", self.name))

    def advantage(self, reward: Tensor, group: Tensor) -> Tensor:
        index, groups = group_index(group)
        mean = group_mean(reward, index, groups)[index]
        return torch.where(mean > 0, group_centred(reward, index, groups) / (mean + self.eps), 0.0)

    def formula(self) -> str:
        return f"A = (c - mean) / (mean + {self.eps:g}) over the group, c correctness"


recipe(
    "maxrl",
    paper="arXiv:2602.02710",
    summary="correctness over the group's success, so that the likelihood of being right is maximised",
    variants={"paper": (MeanNorm(), TokenRatio(), Clip(), TokenMean(), SinglePass())},
    contribution=("mean_norm",),
    doc=__doc__,
)
