"""Advantages normalised over the whole batch (REINFORCE++, Hu et al., arXiv:2501.03262, eq. 8-10 and appendix A).

    global_norm:              A = (R - mean) / std                over the batch
    center_then_global_norm:  A = (R - mean_group) / std of that  over the batch

The variance has ddof 0 and is at least 1e-8 (OpenRLHF). over=tokens lets every token count the same, over=rows every
response. Equal rewards have an advantage of zero only under center_then_global_norm(over=rows), which alone needs no
further mean; with over=tokens the mean of the centred rewards is not zero and is taken off, as OpenRLHF does.
"""

from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.groups import centred, group_centred, group_index
from objectives.kinds import Advantage
from objectives.lazy import Tensor, torch
from objectives.part import parameter
from objectives.zoo import register


@register
@dataclass(frozen=True)
class GlobalNorm(Advantage):
    """Reward minus the batch's mean, over the batch's standard deviation."""

    name = "global_norm"
    paper = "arXiv:2501.03262"
    troubles = ("few_responses",)
    takes_token_rewards = True
    reads = frozenset({"reward"})
    over: str = parameter("tokens", ("tokens", "rows"), "what counts the same in mean and deviation")

    @property
    def centred(self) -> bool:
        return False

    def of(self, batch: TokenBatch) -> Tensor:
        return _whitened(batch, batch.require("reward", self.name), self.over, shift=True)

    def formula(self) -> str:
        return f"A = (R - mean) / std over the batch's {self.over}"


@register
@dataclass(frozen=True)
class CenterThenGlobalNorm(Advantage):
    """Reward minus the group's mean, over the standard deviation of the whole batch."""

    name = "center_then_global_norm"
    paper = "arXiv:2501.03262"
    troubles = ("few_responses",)
    minimum_group = 2
    over: str = parameter("rows", ("rows", "tokens"), "what counts the same in the deviation")

    @property
    def centred(self) -> bool:
        return self.over == "rows"

    def advantage(self, reward: Tensor, group: Tensor) -> Tensor:
        return group_centred(reward, *group_index(group))

    def of(self, batch: TokenBatch) -> Tensor:
        return _whitened(batch, super().of(batch), self.over, shift=not self.centred)

    def formula(self) -> str:
        return f"A = (R - mean over the group) / std over the batch's {self.over}"


def _whitened(batch: TokenBatch, values: Tensor, over: str, shift: bool) -> Tensor:
    """[N] or [N, T] values over their deviation, and less their mean if `shift`."""
    weight = batch.mask.to(values)
    if over == "rows":
        weight = weight / batch.mask.sum(1, keepdim=True).clamp(min=1)
    weight = weight if values.dim() == 2 else weight.sum(1)
    values = centred(values, weight) if shift else values
    variance = (weight * values.square()).sum() / weight.sum().clamp(min=torch.finfo(weight.dtype).tiny)
    return values / variance.clamp(min=1e-8).sqrt()
