"""Twenty parts from outside that keep every law, some of them in unusual ways."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from objectives import (
    Action,
    Advantage,
    Aggregate,
    Mask,
    Modifier,
    Penalty,
    Ratio,
    Reward,
    Schedule,
    Select,
    Surrogate,
    Weight,
    drawn,
    over_scope,
    parameter,
    quantile,
    register,
    scope_reads,
)
from objectives.ops import group_index, group_mean, group_sum
from objectives.parts.ratios import log_ratio

# ---- rewards and selection -------------------------------------------------------------------------------------------


@register
@dataclass(frozen=True)
class RelativeLengthCost(Reward):
    """R_i -= cost (|y_i| / mean length of the group's right responses - 1), within one cost; right responses alone."""

    name = "relative_length_cost"
    reads = frozenset({"reward", "correct", "group"})
    cost: float = parameter(0.1, "[0, inf)", "of a response twice as long as right ones are")

    def shaping(self, batch):
        right, (index, groups) = batch.right(self.name), group_index(batch.require("group", self.name))
        length = batch.lengths.double()
        total, count = group_sum(length * right, index, groups), group_sum(right.double(), index, groups)
        usual = (total / count.clamp(min=1)).clamp(min=1)[index]
        cost = (-self.cost * (length / usual - 1)).clamp(-self.cost, self.cost)
        return torch.where(right, cost, 0.0).to(torch.promote_types(batch.reward.dtype, torch.float32))


@register
@dataclass(frozen=True)
class ShortestRightBonus(Reward):
    """R_i += bonus for the shortest right response of a group, or for all that are equally short."""

    name = "shortest_right_bonus"
    reads = frozenset({"reward", "correct", "group"})
    bonus: float = parameter(0.5, "[0, inf)", "what it earns on top")

    def shaping(self, batch):
        right, (index, groups) = batch.right(self.name), group_index(batch.require("group", self.name))
        length = batch.lengths.double().masked_fill(~right, math.inf)
        shortest = length.new_full((groups,), math.inf).scatter_reduce(0, index, length, "amin")
        chosen = right & (length == shortest[index])
        return self.bonus * chosen.to(torch.promote_types(batch.reward.dtype, torch.float32))


@register
@dataclass(frozen=True)
class WithoutOutliers(Select):
    """Leaves out responses that are more than `times` as long as the median of their group."""

    name = "without_outliers"
    reads = frozenset({"group"})
    times: float = parameter(1.5, "[1, inf)", "the median length")

    def selects(self, batch):
        index, groups = group_index(batch.require("group", self.name))
        lengths, selected = batch.lengths, torch.ones_like(batch.mask[:, 0])
        for number in range(groups):
            rows = index == number
            selected[rows] = lengths[rows] <= self.times * lengths[rows].median()
        return selected


# ---- advantages ------------------------------------------------------------------------------------------------------


@register
@dataclass(frozen=True)
class MidRank(Advantage):
    """How many responses of the group a response beats, less how many beat it, over those that there are."""

    name = "mid_rank"
    minimum_group = 2

    def advantage(self, reward, group):
        same = group[:, None] == group
        beaten = (same & (reward[:, None] > reward)).sum(1) - (same & (reward[:, None] < reward)).sum(1)
        return beaten.to(reward) / (same.sum(1) - 1).to(reward)


@register
@dataclass(frozen=True)
class MedianBaseline(Advantage):
    """Reward minus the median of the group, over the mean distance from it."""

    name = "median_baseline"
    minimum_group = 2

    def advantage(self, reward, group):
        index, groups = group_index(group)
        above = torch.zeros_like(reward)
        for number in range(groups):
            rows = index == number
            above[rows] = reward[rows] - quantile(reward[rows], 0.5)
        distance = group_mean(above.abs(), index, groups)[index]
        return torch.where(above == 0, 0.0, above / (distance + 1e-6))


# ---- weights ---------------------------------------------------------------------------------------------------------


@register
@dataclass(frozen=True)
class SurprisalToGo(Weight):
    """A_it *= the share of a response's surprisal that is still to come at the token, from 0.5 to 1.5."""

    name = "surprisal_to_go"
    reads = frozenset({"logp_old"})

    def weight(self, batch):
        surprisal = torch.where(batch.mask, -batch.require("logp_old", self.name), 0.0)
        to_come = surprisal.flip(1).cumsum(1).flip(1)
        return 0.5 + to_come / surprisal.sum(1, keepdim=True).clamp(min=1e-6)


@register
@dataclass(frozen=True)
class LateTokens(Weight):
    """A_it *= 2 k / (|y_i| + 1) for the k-th token that the loss sees: later tokens count more, 1 on average."""

    name = "late_tokens"

    def weight(self, batch):
        place, tokens = batch.mask.cumsum(1), batch.mask.sum(1, keepdim=True)
        return (2 * place).to(batch.advantage) / (tokens + 1).to(batch.advantage)


@register
@dataclass(frozen=True)
class UsualLength(Weight):
    """A_it *= sqrt(mean length of the mini-batch / |y_i|), within [0.5, 2]."""

    name = "usual_length"
    planned = True

    def weight(self, batch):
        tokens = batch.mask.sum(1).to(batch.advantage)
        usual = tokens.sum() / batch.mask.any(1).sum().clamp(min=1)
        return batch.like_tokens((usual / tokens.clamp(min=1)).sqrt().clamp(0.5, 2.0))


@register
@dataclass(frozen=True)
class HardPrompts(Weight):
    """A_it *= 2 - success of the prompt."""

    name = "hard_prompts"
    reads = frozenset({"correct", "group"})

    def weight(self, batch):
        index, groups = group_index(batch.require("group", self.name))
        success = group_mean(batch.require("correct", self.name).to(batch.advantage), index, groups)
        return batch.like_tokens(2 - success[index])


@register
@dataclass(frozen=True)
class EntropyGovernor(Weight):
    """Bad tokens count less while the entropy is below its target; the factor moves by a tenth of the gap a step."""

    name = "entropy_governor"
    reads = frozenset({"entropy_old"})
    target: float = parameter(1.0, "(0, inf)", "mean entropy in nats")

    def control(self, batch, state):
        last = state.get("factor", 1.0)
        tokens = int(batch.mask.sum())
        if not tokens:
            return {"factor": last}
        entropy = batch.require("entropy_old", self.name)[batch.mask].double().sum().item() / tokens
        return {"factor": min(max(last + 0.1 * (entropy - self.target), 0.2), 1.0)}

    def weight(self, batch):
        factor = batch.state_of(self.name)["factor"]
        return torch.ones_like(batch.advantage).masked_fill(batch.advantage < 0, factor)


# ---- ratios ----------------------------------------------------------------------------------------------------------


@register
@dataclass(frozen=True)
class HalfwayRatio(Ratio):
    """The geometric mean of a token's ratio and of its response's, of which the token's own is differentiated."""

    name = "halfway_ratio"
    reads_once_moved = frozenset({"logp_old"})

    def ratio(self, rows, logp):
        change = log_ratio(rows, logp, self.name)
        tokens = rows.mask.sum(1, keepdim=True).clamp(min=1)
        mean = (change.detach() * rows.mask).sum(1, keepdim=True) / tokens
        return (mean / 2 + change - change.detach() / 2).clamp(-20.0, 20.0).exp()


# ---- surrogates and bounds -------------------------------------------------------------------------------------------


@register
@dataclass(frozen=True)
class SoftSaturation(Surrogate):
    """A (1 + w tanh((r - 1) / w)): the ratio saturates, the later the less sure the policy of the rollouts was."""

    name = "soft_saturation"
    reads = frozenset({"entropy_old"})
    width: float = parameter(0.2, "(0, inf)", "of the saturation where the entropy is 0")

    def extra(self, batch):
        return {"width": self.width * (1 + batch.require("entropy_old", self.name))}

    def loss(self, ratio, logp, advantage, bounds, extra):
        return -advantage * (1 + extra["width"] * ((ratio - 1) / extra["width"]).tanh())


@register
@dataclass(frozen=True)
class RareTokensWide(Modifier):
    """Upper clip bound per token: 0.2 for a sure token, up to 0.6 for one that was next to impossible."""

    name = "rare_tokens_wide"
    sets = frozenset({"high"})
    reads_once_moved = frozenset({"logp_old"})

    def modify(self, bounds, batch):
        if batch.logp_old is None:  # all ratios are 1
            return replace(bounds, high=0.2)
        return replace(bounds, high=0.6 - 0.4 * batch.logp_old.exp())


@register
@dataclass(frozen=True)
class LengthCap(Modifier):
    """The ratio of a bad token is capped at 1 + 4 / sqrt(|y_i|): one number per response."""

    name = "length_cap"
    sets = frozenset({"cap"})

    def modify(self, bounds, batch):
        tokens = batch.mask.sum(1, keepdim=True).clamp(min=1).to(batch.advantage)
        return replace(bounds, cap=1 + 4 / tokens.sqrt())


# ---- masks -----------------------------------------------------------------------------------------------------------


@register
@dataclass(frozen=True)
class SurestOut(Mask):
    """Leaves out the tokens above a quantile of the mini-batch's log-probs."""

    name = "surest_out"
    reads = frozenset({"logp"})
    q: float = parameter(0.7, "(0, 1)", "which quantile")

    def keeps(self, batch):
        logp = batch.require("logp", self.name)
        if not batch.mask.any():
            return batch.mask
        return batch.mask & (logp <= quantile(logp[batch.mask], self.q))


@register
@dataclass(frozen=True)
class LastTokens(Mask):
    """Keeps the last half of the tokens of each response, rounded up."""

    name = "last_tokens"
    shrinks_denominator = False

    def keeps(self, batch):
        place, tokens = batch.mask.cumsum(1), batch.mask.sum(1, keepdim=True)
        return batch.mask & (2 * place > tokens)


@register
@dataclass(frozen=True)
class LocallyUnsure(Mask):
    """Keeps the tokens whose entropy is at least the median of their micro-batch, and says that it reads these."""

    name = "locally_unsure"
    reads = frozenset({"entropy"}) | scope_reads("microbatch")

    def keeps(self, batch):
        return over_scope(batch, "microbatch", self._keeps)

    def _keeps(self, batch):
        entropy = batch.require("entropy", self.name)
        if not batch.mask.any():
            return batch.mask
        return batch.mask & (entropy >= quantile(entropy[batch.mask], 0.5))


# ---- denominators ----------------------------------------------------------------------------------------------------


@register
@dataclass(frozen=True)
class RootMean(Aggregate):
    """Each response's sum over the root of its length, then the mean over responses."""

    name = "root_mean"

    def coefficients(self, batch, counted):
        tokens = counted.sum(1, keepdim=True).clamp(min=1).to(batch.advantage)
        return (1 / (batch.mask.any(1).sum().clamp(min=1) * tokens.sqrt())).expand(batch.mask.shape)


# ---- penalties -------------------------------------------------------------------------------------------------------


@register
@dataclass(frozen=True)
class HuberDrift(Penalty):
    """Huber's function of the log-ratio to the reference, of a draw of tokens that the batch's lots settle."""

    name = "huber_drift"
    reads = frozenset({"logp_ref", "lot"})
    chooses = True
    beta: float = parameter(0.1, "[0, inf)", "weight of the term in the loss")
    share: float = parameter(0.5, "(0, 1]", "of the tokens that bear it")

    def coefficients(self, batch, aggregate):
        count = math.ceil(self.share * int(batch.mask.sum()) - 1e-9)
        chosen = drawn(batch.require("lot", self.name), batch.mask, count)
        return aggregate.coefficients(batch, chosen) * chosen

    def penalty(self, rows, logp, entropy):
        change = logp - rows.require("logp_ref", self.name)
        return self.beta * torch.where(change.abs() < 1, change.square() / 2, change.abs() - 0.5)


# ---- schedules -------------------------------------------------------------------------------------------------------


@register
@dataclass(frozen=True)
class UnsureFirst(Schedule):
    """A pass over the half of the tokens of higher old entropy, then one over the others."""

    name = "unsure_first"
    reads = frozenset({"entropy_old"})
    pass_count = 2

    def passes(self, batch):
        entropy = batch.require("entropy_old", self.name)
        unsure = batch.mask
        if batch.mask.any():
            unsure = batch.mask & (entropy >= quantile(entropy[batch.mask], 0.5))
        batch = batch.entered(self.name, Action.GROUP, unsure)
        return [batch.with_fields(policy_mask=part, penalty_mask=part) for part in (unsure, batch.mask & ~unsure)]


SOUND: tuple[str, ...] = (
    "relative_length_cost",
    "shortest_right_bonus",
    "without_outliers",
    "mid_rank",
    "median_baseline",
    "surprisal_to_go",
    "late_tokens",
    "usual_length",
    "hard_prompts",
    "entropy_governor",
    "halfway_ratio",
    "soft_saturation",
    "rare_tokens_wide",
    "length_cap",
    "surest_out",
    "last_tokens",
    "locally_unsure",
    "root_mean",
    "huber_drift",
    "unsure_first",
)

BASES: Mapping[str, str] = {}
