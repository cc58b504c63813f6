"""GDPO: rewards normalised one by one (Liu et al., arXiv:2601.05242, as the authors' copy of TRL has it).

    A_ki = (R_ki - mean_group) / (std_group + eps) of each reward k,   A_i = sum_k w_k A_ki
    A'_i = A_i / (std of A over the batch + eps)

A reward that hardly varies has as much to say as one that does. R_k are the values of several functions in task.reward,
w task.reward_weights; what shapes their sum does not go with it, dynamic_sampling_by_reward does.
Open: what is around the advantage; here a clip at 0.2 and the mean over all tokens, as in the authors' copy of verl.
Deviations: TRL's eps, 1e-4; the batch's mean, 0 but for rounding, is not taken off: equal rewards have exactly zero.
Variant verl: eps = 1e-6; mean and deviation over the batch's tokens, 1e-8 added to the variance; dual_clip(cap=3).
"""

from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.errors import ObjectiveError
from objectives.groups import centred, group_centred, group_deviation, group_index, group_is_there
from objectives.kinds import Advantage
from objectives.lazy import Tensor, torch
from objectives.part import parameter
from objectives.parts.clip import Clip
from objectives.parts.dual_clip import DualClip
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class DecoupledNorm(Advantage):
    """Each reward's z-score within the group, added up, over the deviation of the sums in the batch."""

    name = "decoupled_norm"
    paper = "arXiv:2601.05242"
    troubles = ("noisy_rewards",)
    minimum_group = 2
    reads = frozenset({"rewards", "group"})
    eps: float = parameter(1e-4, "[0, inf)", "added to the standard deviations")
    over: str = parameter("rows", ("rows", "tokens"), "what counts the same in the batch")

    @property
    def centred(self) -> bool:
        return self.over == "rows"

    def of(self, batch: TokenBatch) -> Tensor:
        rewards, (index, groups) = batch.require("rewards", self.name), group_index(batch.require("group", self.name))
        weights = batch.reward_weights or (1.0,) * rewards.shape[1]
        if len(weights) != rewards.shape[1]:
            raise ObjectiveError(f"{self.name}: {len(weights)} reward_weights for {rewards.shape[1]} rewards")
        total = torch.zeros_like(rewards[:, 0])
        for weight, reward in zip(weights, rewards.unbind(1), strict=True):
            apart = group_centred(reward, index, groups)
            scores = apart / (group_deviation(apart, index, groups) + self.eps)[index]
            total += weight * torch.where(apart == 0, 0.0, scores)
        if self.over == "tokens":
            count = batch.mask.sum(1).to(total)
            total = centred(total, count)
            variance = (count * total.square()).sum() / (count.sum() - 1).clamp(min=1)
            return total * (variance + 1e-8).rsqrt()
        there = group_is_there(batch.mask, index, groups).to(total)
        deviation = ((there * total.square()).sum() / (there.sum() - 1).clamp(min=1)).sqrt()
        return torch.where(total == 0, 0.0, total / (deviation + self.eps))

    def formula(self) -> str:
        each = f"w (R_k - mean) / (std + {self.eps:g}) over the group"
        return f"A = sum of {each}, over its std over the batch's {self.over}"


_SHARED = (TokenRatio(), Clip(), TokenMean(), SinglePass())
recipe(
    "gdpo",
    paper="arXiv:2601.05242",
    summary="several rewards, each normalised by itself before they are added up",
    variants={"paper": (DecoupledNorm(), *_SHARED), "verl": (DecoupledNorm(1e-6, "tokens"), *_SHARED, DualClip())},
    contribution=("decoupled_norm",),
    doc=__doc__,
)
