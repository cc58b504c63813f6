"""Parts that an earlier check let through, each for a reason of its own; their authors believe in them."""

from dataclasses import dataclass
from typing import Any

import torch

from objectives import Aggregate, Mask, Ratio, Surrogate, Weight, parameter, quantile, register
from objectives.ops import group_index, group_mean

_THRESHOLDS: dict[Any, Any] = {}
_ACCURACY: dict[Any, Any] = {}


@register
@dataclass(frozen=True)
class CachedThreshold(Mask):
    """Keeps the tokens whose entropy is above a quantile, which is expensive and therefore cached."""

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
class CachedDifficulty(Weight):
    """Weighs responses to hard prompts more."""

    name = "cached_difficulty"
    reads = frozenset({"correct", "group"})
    gain: float = parameter(1.0, "[0, inf)", "weight added where nobody is right")

    def weight(self, batch):
        key = id(batch.correct)
        if key not in _ACCURACY:
            index, groups = group_index(batch.group)
            _ACCURACY[key] = group_mean(batch.correct.float(), index, groups)[index]
        return batch.like_tokens(1 + self.gain * (1 - _ACCURACY[key]))


@register
@dataclass(frozen=True)
class InverseLength(Aggregate):
    """Responses weighed by their inverse length, weights that sum to 1."""

    name = "inverse_length"

    def coefficients(self, batch, counted):
        inverse = 1 / counted.sum(1, keepdim=True).to(batch.advantage)
        weights = inverse / inverse.sum()
        return weights.expand(batch.mask.shape)


@register
@dataclass(frozen=True)
class SharpRatio(Ratio):
    """Importance ratio to a power, for a sharper clip."""

    name = "sharp_ratio"
    reads_once_moved = frozenset({"logp_old"})
    power: float = parameter(4.0, "(0, inf)", "power of the ratio")

    def ratio(self, rows, logp):
        old = logp.detach() if rows.logp_old is None else rows.logp_old
        return (self.power * (logp - old)).exp()


@register
@dataclass(frozen=True)
class FlowingRatio(Ratio):
    """One ratio per response: the geometric mean of its tokens' ratios."""

    name = "flowing_ratio"
    reads_once_moved = frozenset({"logp_old"})

    def ratio(self, rows, logp):
        old = logp.detach() if rows.logp_old is None else rows.logp_old
        change = ((logp - old).clamp(-20.0, 20.0) * rows.mask).sum(1, keepdim=True)
        mean = change / rows.mask.sum(1, keepdim=True).clamp(min=1)
        return mean.exp().expand_as(logp)


@register
@dataclass(frozen=True)
class ThinWeight(Weight):
    """Weighs responses by how sure the policy was of them on average."""

    name = "thin_weight"
    reads = frozenset({"logp_old"})

    def weight(self, batch):
        logp = batch.require("logp_old", self.name)
        mean = logp.sum(1, keepdim=True) / batch.mask.sum(1, keepdim=True).clamp(min=1)
        return (mean.exp() * torch.ones_like(logp)).squeeze()


@register
@dataclass(frozen=True)
class Tethered(Surrogate):
    """Ratio times advantage, tethered to a ratio of 1."""

    name = "tethered"
    strength: float = parameter(0.5, "[0, inf)", "of the tether")

    def loss(self, ratio, logp, advantage, bounds, extra):
        return -ratio * advantage + self.strength * (ratio - 1).square()


@register
@dataclass(frozen=True)
class WarmMicro(Weight):
    """Lets the first gradients of an accumulation count less, while the optimiser warms up."""

    name = "warm_micro"
    reads = frozenset({"micro_batch"})
    planned = True
    first: float = parameter(0.5, "[0, 1]", "weight of the first micro-batch")

    def weight(self, batch):
        number = batch.require("micro_batch", self.name).to(batch.advantage)
        ramp = self.first + (1 - self.first) * number / number.max().clamp(min=1)
        return batch.like_tokens(ramp)


@register
@dataclass(frozen=True)
class OnePositive(Weight):
    """Weighs the further right answers of a prompt less."""

    name = "one_positive"
    reads = frozenset({"correct", "group"})
    rest: float = parameter(0.25, "[0, 1]", "weight of the others")

    def weight(self, batch):
        weight, seen = torch.ones_like(batch.advantage), set()
        for row, (number, right) in enumerate(zip(batch.group.tolist(), batch.right(self.name).tolist(), strict=True)):
            if right and number in seen:
                weight[row] = self.rest
            if right:
                seen.add(number)
        return weight
