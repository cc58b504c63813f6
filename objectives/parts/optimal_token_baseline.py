"""OTB's advantage (Li et al., arXiv:2602.07078): a baseline for each token; see the recipe `otb`.

A_it = R_i - sum_j W_jt R_j / sum_j W_jt,   W_it = sum_{s <= t} ( 1 - 2 pi_old(y_is) + sum_v pi_old(v)^2 )

A reward equal to its baseline up to rounding has an advantage of exactly zero.
"""

from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.groups import group_centred, group_index
from objectives.kinds import Advantage
from objectives.lazy import Tensor, torch
from objectives.order import running_sum
from objectives.part import parameter
from objectives.zoo import register


@register
@dataclass(frozen=True)
class OptimalTokenBaseline(Advantage):
    """Reward minus the group's mean at each token, weighed by the squared gradients of the log-probs up to there."""

    name = "optimal_token_baseline"
    paper = "arXiv:2602.07078"
    troubles = ("few_responses", "credit")
    minimum_group = 2
    reads = frozenset({"reward", "group", "logp_old", "sum_pi_squared_old"})
    alone: str = parameter("baseline", ("baseline", "reward"), "what a token has that no other response has: 0, or R")

    @property
    def centred(self) -> bool:
        return self.alone == "baseline"

    def advantage(self, reward: Tensor, group: Tensor) -> Tensor:
        return group_centred(reward, *group_index(group))

    def of(self, batch: TokenBatch) -> Tensor:
        centred, mask = super().of(batch), batch.mask
        index, groups = group_index(batch.require("group", self.name))
        chance = batch.require("logp_old", self.name).double().exp()
        step = (1 - 2 * chance + batch.require("sum_pi_squared_old", self.name)).clamp(min=0)
        energy = running_sum(step * mask, 1) * mask
        place = index[:, None] * mask.shape[1] + (mask.cumsum(1) - 1).clamp(min=0)  # tokens of a group and a number

        def over_group(values: Tensor) -> Tensor:
            return energy.new_zeros(groups * mask.shape[1]).index_add(0, place.flatten(), values.flatten())[place]

        total = over_group(energy)
        baseline = over_group(energy * centred[:, None]) / total.clamp(min=torch.finfo(total.dtype).tiny)
        advantage = centred[:, None] - baseline
        rounding = 32 * torch.finfo(total.dtype).eps * centred.abs()[:, None]
        advantage = advantage.where(advantage.abs() > rounding, 0.0)
        lonely = over_group(mask.double()) == 1
        rest = batch.require("reward", self.name)[:, None] if self.alone == "reward" else 0.0 * centred[:, None]
        return torch.where(mask, torch.where(lonely, rest, advantage), 0.0).to(centred)

    def formula(self) -> str:
        alone = "0" if self.centred else "R"
        return f"A = R - sum W R / sum W over the group's t-th tokens, {alone} where it has one"

    def where(self) -> str:
        return "W = sum up to the token of 1 - 2 p_old + sum of p_old^2"
