"""From the rewards of a group, or of the whole batch, to advantages."""

from typing import ClassVar

from objectives.batch import TokenBatch
from objectives.kinds import Advantage
from objectives.lazy import Tensor, torch
from objectives.ops import centred, group_centred, group_deviation, group_index, group_sum
from objectives.part import parameter
from objectives.zoo import register


@register
class GroupNorm(Advantage):
    """Reward minus the group's mean, over the group's standard deviation (ddof 1).

    GRPO's advantage (Shao et al., DeepSeekMath, arXiv:2402.03300, section 4.1.2).

        A_i = (R_i - mean_group) / (std_group + eps)

    Open in the paper, and the reading taken: std with ddof 1 and 1e-6 added (verl; the printed advantages of later
    papers confirm ddof 1). Deviations: a reward equal to its group's mean up to rounding, and so every reward of an
    equal-reward group, has an advantage of exactly zero.
    """

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


@register
class GroupCenter(Advantage):
    """Reward minus the group's mean; exactly zero where the two are equal up to rounding.

    Dr. GRPO's advantage (Liu et al., Understanding R1-Zero-Like Training, arXiv:2503.20783).

        A_i = R_i - mean_group

    The standard deviation is left out, because it weighs easy and hard prompts more than the others.
    """

    name = "group_center"
    paper = "arXiv:2503.20783"
    failure_modes: ClassVar[tuple[str, ...]] = ("mixed_difficulty",)
    minimum_group = 2

    def advantage(self, reward: Tensor, group: Tensor) -> Tensor:
        return group_centred(reward, *group_index(group))

    def formula(self) -> str:
        return "A = R - mean over the group"


@register
class LeaveOneOut(Advantage):
    """Reward minus the mean of the group's other rewards; exactly zero where they are equal up to rounding.

    RLOO's baseline (Ahmadian et al., arXiv:2402.14740): what the other responses to the prompt earn.

    A_i = R_i - mean_{j != i} R_j = G / (G - 1) (R_i - mean_group)
    """

    name = "leave_one_out"
    paper = "arXiv:2402.14740"
    failure_modes = ("few_responses", "mixed_difficulty")
    minimum_group = 2

    def advantage(self, reward: Tensor, group: Tensor) -> Tensor:
        index, groups = group_index(group)
        size = group_sum(torch.ones_like(reward), index, groups)
        return group_centred(reward, index, groups) * (size / (size - 1))[index]

    def formula(self) -> str:
        return "A = R - mean over the group's others"


@register
class GlobalNorm(Advantage):
    """Reward minus the batch's mean, over the batch's standard deviation.

    Advantages normalised over the whole batch (REINFORCE++, Hu et al., arXiv:2501.03262, eq. 8-10 and appendix A).

        global_norm:              A = (R - mean) / std                over the batch
        center_then_global_norm:  A = (R - mean_group) / std of that  over the batch

    The variance has ddof 0 and is at least 1e-8 (OpenRLHF). over=tokens lets every token count the same, over=rows
    every response. Equal rewards have an advantage of zero only under center_then_global_norm(over=rows), which alone
    needs no further mean; with over=tokens the mean of the centred rewards is not zero and is taken off, as OpenRLHF
    does.
    """

    name = "global_norm"
    paper = "arXiv:2501.03262"
    centred = False
    failure_modes = ("few_responses",)
    takes_token_rewards = True
    reads = frozenset({"reward"})
    over: str = parameter("tokens", ("tokens", "rows"), "what counts the same in mean and deviation")

    def of(self, batch: TokenBatch) -> Tensor:
        return _whitened(batch, batch.require("reward", self.name), self.over, shift=True)

    def formula(self) -> str:
        return f"A = (R - mean) / std over the batch's {self.over}"


@register
class CenterThenGlobalNorm(GroupCenter):
    """Reward minus the group's mean, over the standard deviation of the whole batch."""

    name = "center_then_global_norm"
    paper = "arXiv:2501.03262"
    failure_modes = ("few_responses",)
    over: str = parameter("rows", ("rows", "tokens"), "what counts the same in the deviation")

    @property
    def centred(self) -> bool:
        return self.over == "rows"

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


@register
class NoReward(Advantage):
    """No response is better than another: rewards are not looked at.

    No advantage by reward: what else is in the objective says alone what is learnt, as a teacher in `opd`.

    A_i = 0
    """

    name = "no_reward"
    paper = "doi:10.64434/tml.20251026"
    reads = frozenset[str]()

    def of(self, batch: TokenBatch) -> Tensor:
        kind = batch.mask.dtype if batch.reward is None else batch.reward.dtype
        return torch.zeros(len(batch.mask), dtype=torch.promote_types(kind, torch.float32), device=batch.mask.device)

    def formula(self) -> str:
        return "A = 0"
