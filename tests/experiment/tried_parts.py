"""Faulty parts, each with what is wrong with it."""

from dataclasses import dataclass

import torch

from objectives import (
    Action,
    Advantage,
    Aggregate,
    Mask,
    Penalty,
    Ratio,
    Schedule,
    Surrogate,
    Weight,
    parameter,
    quantile,
    register,
)
from objectives.ops import group_index, group_mean, group_sum
from objectives.parts.losses import log_ratio

BASES = {"settled_ratio": "grpo", "prefix_drift": "grpo-kl+lopti", "tethered": "grpo", "inverse_length": "grpo"}
"""Faulty part -> the objective to which it is added for its fault to show; `grpo-kl` for the others."""
_THRESHOLDS: dict[object, float] = {}


@register
@dataclass(frozen=True)
class SurpriseShare(Weight):
    """Padding: the softmax gives padding its share; seen only where lengths are ragged."""

    name = "surprise_share"
    reads = frozenset({"logp_old"})
    temperature: float = parameter(2.0, "(0, inf)", "of the softmax; the larger, the more even the shares")

    def weight(self, batch):
        surprise = -batch.require("logp_old", self.name) / self.temperature
        return surprise.softmax(1) * batch.mask.sum(1, keepdim=True)


@register
@dataclass(frozen=True)
class RankAdvantage(Advantage):
    """Rows: equal rewards are ranked by the place of their rows."""

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
class ScaledGradient(Surrogate):
    """Micro-batches: the largest advantage is that of the rows of one loss call."""

    name = "scaled_gradient"

    def loss(self, ratio, logp, advantage, bounds, extra):
        largest = advantage.abs().amax().clamp(min=1e-6) if advantage.numel() else 1.0
        return -ratio * advantage / largest


@register
@dataclass(frozen=True)
class TokenDropout(Mask):
    """Random: draws anew at every call instead of by batch.random_key."""

    name = "token_dropout"
    share: float = parameter(0.1, "[0, 1)", "of the tokens")

    def keeps(self, batch):
        return batch.mask & (torch.rand(batch.mask.shape, device=batch.mask.device) >= self.share)


@register
@dataclass(frozen=True)
class WithoutOpening(Aggregate):
    """Writes: takes tokens out of `counted` in place, which is the batch's mask without a mask part."""

    name = "without_opening"

    def coefficients(self, batch, counted):
        counted[:, :1] = False
        return torch.ones_like(batch.advantage) / counted.sum().clamp(min=1)


@register
@dataclass(frozen=True)
class Distance(Penalty):
    """Finite: the gradient of sqrt at 0 is NaN while the policy is still the reference."""

    name = "distance"
    reads = frozenset({"logp_ref"})
    beta: float = parameter(0.1, "[0, inf)", "weight of the distance in the loss")

    def penalty(self, rows, logp, entropy):
        return self.beta * (logp - rows.require("logp_ref", self.name)).square().sqrt()


@register
@dataclass(frozen=True)
class EngineGap(Mask):
    """Undeclared: reads logp_sampler once the policy has moved, and declares logp alone."""

    name = "engine_gap"
    reads_once_moved = frozenset({"logp"})
    most: float = parameter(0.5, "(0, inf)", "largest difference of the log-probs")

    def keeps(self, batch):
        if batch.on_policy:
            return batch.mask
        return batch.mask & ((batch.logp - batch.logp_sampler).abs() <= self.most)


@register
@dataclass(frozen=True)
class ScatteredMean(Advantage):
    """Groups: takes group numbers to be 0 .. groups-1."""

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
class SettledRatio(Ratio):
    """Gradient: the ratio is that of the plan's log-probs and has no gradient."""

    name = "settled_ratio"
    reads = frozenset({"logp"})
    reads_once_moved = frozenset({"logp_old"})

    def ratio(self, rows, logp):
        return log_ratio(rows, rows.require("logp", self.name)[:, : logp.shape[1]], self.name).exp()


@register
@dataclass(frozen=True)
class PrefixDrift(Penalty):
    """Masked: a token's term has a gradient into earlier tokens, those of another pass too."""

    name = "prefix_drift"
    reads = frozenset({"logp_ref"})
    beta: float = parameter(0.01, "[0, inf)", "weight of the square in the loss")

    def penalty(self, rows, logp, entropy):
        change = torch.where(rows.mask, logp - rows.require("logp_ref", self.name), 0.0)
        return self.beta * change.cumsum(1).square()


@register
@dataclass(frozen=True)
class GoodThenBad(Schedule):
    """Promise: says one pass and makes two."""

    name = "good_then_bad"

    def passes(self, batch):
        good = batch.mask & (batch.advantage > 0)
        batch = batch.record(self.name, Action.GROUP, good)
        return [batch.with_fields(policy_mask=part, penalty_mask=part) for part in (good, batch.mask & ~good)]


@register
@dataclass(frozen=True)
class SharpNorm(Advantage):
    """Promise: says that it is centred, but equal rewards leave rounding errors that eps does not hide."""

    name = "sharp_norm"
    minimum_group = 2
    eps: float = parameter(1e-12, "(0, inf)", "added to the standard deviation")

    def advantage(self, reward, group):
        index, groups = group_index(group)
        size = group_sum(torch.ones_like(reward), index, groups)
        centred = reward - group_mean(reward, index, groups)[index]
        deviation = (group_sum(centred.square(), index, groups) / (size - 1)).sqrt()
        return centred / (deviation + self.eps)[index]


@register
@dataclass(frozen=True)
class CachedThreshold(Mask):
    """State: a quantile is kept by the shape of the batch, for all later batches of that shape."""

    name = "cached_threshold"
    reads = frozenset({"entropy"})
    q: float = parameter(0.5, "(0, 1)", "quantile below which a token is left out")

    def keeps(self, batch):
        entropy = batch.require("entropy", self.name)
        key = (tuple(entropy.shape), self.q)
        if key not in _THRESHOLDS:
            pool = entropy[batch.mask]
            _THRESHOLDS[key] = float(quantile(pool, self.q)) if len(pool) else 0.0
        return batch.mask & (entropy >= _THRESHOLDS[key])


@register
@dataclass(frozen=True)
class InverseLength(Aggregate):
    """Empty: 1 / 0 where a mask leaves out a whole response takes the weight of all others."""

    name = "inverse_length"

    def coefficients(self, batch, counted):
        inverse = 1 / counted.sum(1, keepdim=True).to(batch.advantage)
        weights = inverse / inverse.sum()
        return weights.expand(batch.mask.shape)


@register
@dataclass(frozen=True)
class ThinWeight(Weight):
    """Shape: squeeze takes the positions away where all responses have one token."""

    name = "thin_weight"
    reads = frozenset({"logp_old"})

    def weight(self, batch):
        logp = batch.require("logp_old", self.name)
        mean = logp.sum(1, keepdim=True) / batch.mask.sum(1, keepdim=True).clamp(min=1)
        return (mean.exp() * torch.ones_like(logp)).squeeze()


@register
@dataclass(frozen=True)
class Tethered(Surrogate):
    """Promise: moves tokens without advantage; hidden where a penalty moves these as well."""

    name = "tethered"
    strength: float = parameter(0.5, "[0, inf)", "of the tether")

    def loss(self, ratio, logp, advantage, bounds, extra):
        return -ratio * advantage + self.strength * (ratio - 1).square()
