"""NFT: negative-aware fine-tuning (Chen et al., Bridging Supervised Learning and RL, arXiv:2505.18116).

    L = -sum_i omega sum_t [ c_i log r_it + (1 - c_i) log max_v( (1 - p r_it) / (1 - p), eps ) ]

c is correctness, p its mean over the group, omega = 1 - p; max_v clips the value and keeps the gradient. A wrong answer
trains the policy that would be left without the right ones. The advantage has no say, so weights may not be added.
On-policy the gradient is that of c - p, Dr. GRPO's.
Deviations: the equation has no denominator, the authors' code sums tokens and rows over the constant 1000, here it is
the mean over all tokens; their code keeps p within [0.02, 0.98] and log r below 10.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.groups import group_index, group_mean
from objectives.kinds import Bounds, Surrogate
from objectives.lazy import Tensor, torch
from objectives.part import parameter
from objectives.parts.group_center import GroupCenter
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class ImplicitNegative(Surrogate):
    """Likelihood of right answers, and of wrong ones under the policy that is implied for them."""

    name = "implicit_negative"
    paper = "arXiv:2505.18116"
    follows_advantage = False
    reads = frozenset({"correct", "group"})
    eps: float = parameter(1.0, "(0, inf)", "smallest ratio of the implied policy that counts")

    def extra(self, batch: TokenBatch) -> Mapping[str, Tensor]:
        correct = batch.require("correct", self.name).to(batch.require("advantage", self.name))
        index, groups = group_index(batch.require("group", self.name))
        return {"correct": correct, "success": group_mean(correct, index, groups)[index]}

    def loss(
        self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Mapping[str, Tensor]
    ) -> Tensor:
        correct, success = extra["correct"][:, None], extra["success"][:, None]
        failure = torch.where(success < 1, 1 - success, 1.0)
        implied = (1 - success * ratio) / failure
        value = implied.detach().clamp(min=self.eps)
        negative = value.log() + (implied - implied.detach()) / value
        return -(1 - success) * (correct * ratio.log() + (1 - correct) * negative)

    def formula(self) -> str:
        return f"(1 - rho) (c log r + (1 - c) log(max_v((1 - rho r)/(1 - rho), {self.eps:g})))"

    def where(self) -> str:
        return "rho = mean of c over the group; max_v clips the value and keeps the gradient"


recipe(
    "nft",
    paper="arXiv:2505.18116",
    summary="likelihood of right answers, and of an implied policy for wrong ones; no advantage",
    variants={"paper": (GroupCenter(), TokenRatio(), ImplicitNegative(), TokenMean(), SinglePass())},
    contribution=("implicit_negative",),
    doc=__doc__,
)
