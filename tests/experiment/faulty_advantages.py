"""Parts that their authors believe in; `faults` says what is wrong with each of them."""

import itertools
from dataclasses import dataclass

import torch

from objectives import (
    Advantage,
    Reward,
    Select,
    Weight,
    parameter,
    register,
)
from objectives.ops import group_centred, group_deviation, group_index, group_is_constant, group_mean, group_sum

# ---- rewards and selection -------------------------------------------------------------------------------------------


@register
@dataclass(frozen=True)
class Shortness(Reward):
    """R_i += weight (1 - |y_i| / limit): short responses earn a little more."""

    name = "shortness"
    reads = frozenset({"reward"})
    weight: float = parameter(0.2, "[0, inf)", "what a response of no length would earn")

    def shaping(self, batch):
        length = batch.lengths.to(batch.require("reward", self.name))
        return self.weight * (1 - length / batch.mask.shape[1])


@register
@dataclass(frozen=True)
class TruncatedEarnNothing(Reward):
    """R_i = 0 where the response was stopped by length."""

    name = "truncated_earn_nothing"
    reads = frozenset({"reward", "truncated"})

    def shaping(self, batch):
        reward = batch.require("reward", self.name)
        reward[batch.require("truncated", self.name)] = 0
        return torch.zeros_like(reward)


@register
@dataclass(frozen=True)
class BriefAndRight(Reward):
    """R_i += bonus / |y_i| where the answer is right."""

    name = "brief_and_right"
    reads = frozenset({"reward"})
    bonus: float = parameter(1.0, "[0, inf)", "what a right answer of one token earns on top")

    def shaping(self, batch):
        reward = batch.require("reward", self.name)
        right = reward > 0.5 if batch.correct is None else batch.correct == 1
        return self.bonus * right / batch.lengths.clamp(min=1).to(reward)


@register
@dataclass(frozen=True)
class LearnableGroups(Select):
    """Trains on prompts that are answered right sometimes, but not always."""

    name = "learnable_groups"
    reads = frozenset({"correct", "group"})
    margin: float = parameter(0.1, "[0, 0.5)", "distance of the success from 0 and 1 that a prompt needs")

    def selects(self, batch):
        group, correct = batch.require("group", self.name), batch.require("correct", self.name).double()
        starts = torch.cat([torch.zeros_like(group[:1]), (group[1:] != group[:-1]).to(group)])
        prompt = starts.cumsum(0)
        prompts = int(prompt[-1]) + 1
        success = group_mean(correct, prompt, prompts)[prompt]
        return (success > self.margin) & (success < 1 - self.margin)


# ---- advantages ------------------------------------------------------------------------------------------------------


@register
@dataclass(frozen=True)
class OnlineBaseline(Advantage):
    """Reward minus the mean of the rewards seen before it."""

    name = "online_baseline"
    reads = frozenset({"reward"})
    centred = False

    def of(self, batch):
        reward = batch.require("reward", self.name)
        seen = torch.arange(len(reward), device=reward.device).clamp(min=1).to(reward)
        return reward - (reward.cumsum(0) - reward) / seen


@register
@dataclass(frozen=True)
class RankAdvantage(Advantage):
    """The rank of a reward in its group, spread evenly over [-1, 1]."""

    name = "rank_advantage"
    minimum_group = 2
    centred = False

    def advantage(self, reward, group):
        advantage = torch.zeros_like(reward)
        for prompt in group.unique():
            rows = (group == prompt).nonzero()[:, 0]
            rank = reward[rows].argsort().argsort().to(reward)
            advantage[rows] = 2 * rank / (len(rows) - 1) - 1
        return advantage


@register
@dataclass(frozen=True)
class TieBreaker(Advantage):
    """The z-score of the group; where all rewards are equal a little noise keeps the group alive."""

    name = "tie_breaker"
    minimum_group = 2
    centred = False
    noise: float = parameter(0.01, "[0, inf)", "deviation of the noise")

    def advantage(self, reward, group):
        index, groups = group_index(group)
        centred = group_centred(reward, index, groups)
        score = centred / (group_deviation(centred, index, groups) + 1e-6)[index]
        return torch.where(group_is_constant(reward, index, groups), self.noise * torch.randn_like(reward), score)


_REWARDS = {"sum": 0.0, "count": 0}


@register
@dataclass(frozen=True)
class HistoricalBaseline(Advantage):
    """Reward minus the mean of all rewards of the training so far."""

    name = "historical_baseline"
    reads = frozenset({"reward"})
    centred = False

    def of(self, batch):
        reward = batch.require("reward", self.name)
        _REWARDS["sum"] += reward.sum().item()
        _REWARDS["count"] += len(reward)
        return reward - _REWARDS["sum"] / max(1, _REWARDS["count"])


@register
@dataclass(frozen=True)
class LeanNorm(Advantage):
    """The z-score of the group without a copy of the rewards."""

    name = "lean_norm"
    minimum_group = 2

    def advantage(self, reward, group):
        index, groups = group_index(group)
        reward -= group_mean(reward, index, groups)[index]
        largest = reward.new_zeros(groups).scatter_reduce(0, index, reward.abs(), "amax")
        flat = largest[index] < 1e-9
        return torch.where(flat, 0.0, reward / (group_deviation(reward, index, groups) + 1e-6)[index])


@register
@dataclass(frozen=True)
class ExactNorm(Advantage):
    """The z-score of the group, with nothing added to the deviation that would shrink it."""

    name = "exact_norm"
    minimum_group = 2

    def advantage(self, reward, group):
        index, groups = group_index(group)
        centred = group_centred(reward, index, groups)
        return centred / group_deviation(centred, index, groups)[index]


@register
@dataclass(frozen=True)
class TableNorm(Advantage):
    """The z-score of the group, from a table with one row per prompt."""

    name = "table_norm"
    minimum_group = 2

    def advantage(self, reward, group):
        size = int((group == group[0]).sum())
        table = reward.view(-1, size)
        centred = table - table.mean(1, keepdim=True)
        centred = centred.where(centred.abs() > 1e-9, 0.0)
        return (centred / (table.std(1, keepdim=True) + 1e-6)).flatten()


@register
@dataclass(frozen=True)
class ScatteredMean(Advantage):
    """Reward minus the group's mean."""

    name = "scattered_mean"
    minimum_group = 2

    def advantage(self, reward, group):
        groups = len(group.unique())
        total = reward.new_zeros(groups).index_add(0, group, reward)
        size = reward.new_zeros(groups).index_add(0, group, torch.ones_like(reward))
        centred = reward - (total / size)[group]
        return centred.where(centred.abs() > 1e-9, 0.0)


@register
@dataclass(frozen=True)
class SharpNorm(Advantage):
    """The z-score of the group with a very small number added to the deviation."""

    name = "sharp_norm"
    minimum_group = 2
    eps: float = parameter(1e-12, "(0, inf)", "added to the standard deviation")

    def advantage(self, reward, group):
        index, groups = group_index(group)
        size = group_sum(torch.ones_like(reward), index, groups)
        centred = reward - group_mean(reward, index, groups)[index]
        deviation = (group_sum(centred.square(), index, groups) / (size - 1)).sqrt()
        return centred / (deviation + self.eps)[index]


# ---- weights ---------------------------------------------------------------------------------------------------------


@register
@dataclass(frozen=True)
class SurpriseShare(Weight):
    """A_it *= |y_i| softmax_t(-log p_old): a response's advantage goes to its surprising tokens."""

    name = "surprise_share"
    reads = frozenset({"logp_old"})
    temperature: float = parameter(2.0, "(0, inf)", "of the softmax; the larger, the more even the shares")

    def weight(self, batch):
        surprise = -batch.require("logp_old", self.name) / self.temperature
        return surprise.softmax(1) * batch.mask.sum(1, keepdim=True)


_UPDATES = itertools.count(1)


@register
@dataclass(frozen=True)
class WarmUp(Weight):
    """Bad responses count fully only after a number of updates."""

    name = "warm_up"
    planned = True
    updates: int = parameter(100, "[1, inf)", "after how many updates")

    def weight(self, batch):
        share = min(1.0, next(_UPDATES) / self.updates)
        return torch.where(batch.advantage < 0, share, 1.0).to(batch.advantage)


@register
@dataclass(frozen=True)
class BalancedSides(Weight):
    """Good tokens count as much in total as bad ones."""

    name = "balanced_sides"

    def weight(self, batch):
        good, bad = batch.advantage.clamp(min=0).sum(), batch.advantage.clamp(max=0).abs().sum()
        return 1 + (batch.advantage > 0) * (bad / good - 1)


@register
@dataclass(frozen=True)
class RootLength(Weight):
    """A_it *= sqrt(mean length / |y_i|): long responses count less, but not in proportion."""

    name = "root_length"

    def weight(self, batch):
        length = batch.mask.sum(1, keepdim=True).to(batch.advantage).clamp(min=1)
        there = batch.mask.any(1).sum().clamp(min=1)
        return (batch.mask.sum() / there / length).sqrt()


@register
@dataclass(frozen=True)
class RareAndGood(Weight):
    """Rare tokens of good responses count twice."""

    name = "rare_and_good"
    threshold: float = parameter(0.1, "(0, 1)", "probability below which a token is rare")

    def weight(self, batch):
        rare = (batch.advantage > 0) & (batch.logp_sampler.exp() < self.threshold)
        return 1.0 + rare.to(batch.advantage)


@register
@dataclass(frozen=True)
class Curriculum(Weight):
    """Prompts from the end of the curriculum count up to half as much again."""

    name = "curriculum"
    reads = frozenset({"group"})
    most: float = parameter(0.5, "[0, inf)", "what the last prompt counts on top")

    def weight(self, batch):
        group = batch.require("group", self.name).to(batch.advantage)
        return batch.like_tokens(1 + self.most * group / group.max().clamp(min=1))
