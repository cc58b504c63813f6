"""Parts that their authors believe in; `faults` says what is wrong with each of them."""

import math
from dataclasses import dataclass, replace

import torch

from objectives import (
    Aggregate,
    Bounds,
    Mask,
    Modifier,
    Ratio,
    Surrogate,
    over_scope,
    parameter,
    quantile,
    register,
)
from objectives.parts.ratios import log_ratio

# ---- ratios ----------------------------------------------------------------------------------------------------------


@register
@dataclass(frozen=True)
class SelfNormalisedRatio(Ratio):
    """Importance ratios over their mean, as self-normalised importance sampling has them."""

    name = "self_normalised_ratio"
    reads_once_moved = frozenset({"logp_old"})

    def ratio(self, rows, logp):
        ratio = log_ratio(rows, logp, self.name).exp()
        mean = (ratio.detach() * rows.mask).sum() / rows.mask.sum().clamp(min=1)
        return ratio / mean.clamp(min=1e-6)


@register
@dataclass(frozen=True)
class SettledRatio(Ratio):
    """Importance ratio of each token, of the log-probs that the plan has already."""

    name = "settled_ratio"
    reads = frozenset({"logp"})
    reads_once_moved = frozenset({"logp_old"})

    def ratio(self, rows, logp):
        return log_ratio(rows, rows.require("logp", self.name)[:, : logp.shape[1]], self.name).exp()


@register
@dataclass(frozen=True)
class WholeRatio(Ratio):
    """The geometric mean of a response's ratios, for each of its tokens."""

    name = "whole_ratio"
    reads_once_moved = frozenset({"logp_old"})

    def ratio(self, rows, logp):
        change = log_ratio(rows, logp, self.name) * rows.mask
        mean = change.sum(1, keepdim=True) / rows.mask.sum(1, keepdim=True).clamp(min=1)
        return mean.exp().expand(logp.shape)


# ---- surrogates and bounds -------------------------------------------------------------------------------------------


@register
@dataclass(frozen=True)
class ScaledGradient(Surrogate):
    """Ratio times advantage, the largest advantage being 1."""

    name = "scaled_gradient"

    def loss(self, ratio, logp, advantage, bounds, extra):
        largest = advantage.abs().amax().clamp(min=1e-6) if advantage.numel() else 1.0
        return -ratio * advantage / largest


@register
@dataclass(frozen=True)
class BatchTempered(Surrogate):
    """Ratio to a power that falls as the mini-batch grows unsure, times the advantage."""

    name = "batch_tempered"
    reads = frozenset({"entropy_old"})

    def extra(self, batch):
        entropy = batch.require("entropy_old", self.name)[batch.mask]
        return {"power": 1 / (1 + entropy.sum(0, keepdim=True) / max(1, len(entropy)))}

    def loss(self, ratio, logp, advantage, bounds, extra):
        return -(ratio ** extra["power"]) * advantage


@register
@dataclass(frozen=True)
class Anchored(Surrogate):
    """Ratio times advantage, less a small square of how far the ratio is from 1."""

    name = "anchored"
    strength: float = parameter(0.1, "[0, inf)", "of the square")

    def loss(self, ratio, logp, advantage, bounds, extra):
        return -ratio * advantage + self.strength * (ratio - 1).square()


@register
@dataclass(frozen=True)
class EntropyWidth(Modifier):
    """The upper clip bound of a token grows with its entropy, from 0.2 for the surest to 0.4 for the least sure."""

    name = "entropy_width"
    sets = frozenset({"high"})
    reads = frozenset({"entropy"})

    def modify(self, bounds, batch):
        entropy = batch.require("entropy", self.name)
        if not entropy.numel():
            return replace(bounds, high=0.2)
        low, high = entropy.amin(), entropy.amax()
        return replace(bounds, high=0.2 + 0.2 * (entropy - low) / (high - low).clamp(min=1e-6))


@register
@dataclass(frozen=True)
class FollowingWidth(Modifier):
    """The upper clip bound widens while more than a tenth of the tokens is beyond it, and narrows again."""

    name = "following_width"
    sets = frozenset({"high"})
    reads_once_moved = frozenset({"logp", "logp_old"})
    step: float = parameter(1.05, "(1, inf)", "by which factor")
    width = [0.2]  # noqa: RUF012

    def modify(self, bounds, batch):
        if not batch.on_policy:
            ratio = log_ratio(batch, batch.require("logp", self.name), self.name).exp()
            beyond = (batch.mask & (ratio > 1 + self.width[0])).sum() / batch.mask.sum().clamp(min=1)
            self.width[0] *= self.step if beyond > 0.1 else 1 / self.step
        return replace(bounds, high=self.width[0])


_LEARNED_WIDTH = torch.nn.Parameter(torch.tensor(0.28))


@register
@dataclass(frozen=True)
class LearnedWidth(Modifier):
    """The upper clip bound is a number that an outer loop may tune."""

    name = "learned_width"
    sets = frozenset({"high"})

    def modify(self, bounds, batch):
        return replace(bounds, high=_LEARNED_WIDTH)


@register
@dataclass(frozen=True)
class WiderTop(Modifier):
    """Raises the upper clip bound."""

    name = "wider_top"
    sets = frozenset({"high"})
    high: float = parameter(0.3, "[0, inf)", "the ratio is clipped to 1 + high above")

    def modify(self, bounds, batch):
        return Bounds(low=self.high, high=self.high)


# ---- masks -----------------------------------------------------------------------------------------------------------


@register
@dataclass(frozen=True)
class RareTokensOut(Mask):
    """Leaves out the fifth of the tokens that the policy holds least likely."""

    name = "rare_tokens_out"
    reads = frozenset({"logp"})
    share: float = parameter(0.2, "[0, 1)", "of the tokens")

    def keeps(self, batch):
        logp = batch.require("logp", self.name)
        return logp >= quantile(logp.flatten(), self.share)


@register
@dataclass(frozen=True)
class UnsureHalf(Mask):
    """Keeps the half of the tokens that has the highest entropy."""

    name = "unsure_half"
    reads = frozenset({"entropy"})

    def keeps(self, batch):
        entropy = batch.require("entropy", self.name).masked_fill(~batch.mask, -math.inf).flatten()
        count = math.ceil(int(batch.mask.sum()) / 2)
        kept = torch.zeros_like(batch.mask).flatten()
        kept[entropy.topk(count).indices] = True
        return kept.view_as(batch.mask)


@register
@dataclass(frozen=True)
class FourOfFive(Mask):
    """Leaves out every fifth token, as a cheap and repeatable dropout."""

    name = "four_of_five"

    def keeps(self, batch):
        place = batch.mask.flatten().cumsum(0).view_as(batch.mask)
        return batch.mask & (place % 5 != 0)


@register
@dataclass(frozen=True)
class UnsureLocally(Mask):
    """Keeps the tokens whose entropy is above the mean, or above that of their micro-batch where these are known."""

    name = "unsure_locally"
    reads = frozenset({"entropy"})

    def keeps(self, batch):
        return over_scope(batch, "minibatch" if batch.micro_batch is None else "microbatch", self._keeps)

    def _keeps(self, batch):
        entropy, tokens = batch.require("entropy", self.name), batch.mask.sum().clamp(min=1)
        return batch.mask & (entropy >= (entropy * batch.mask).sum() / tokens)


@register
@dataclass(frozen=True)
class TokenDropout(Mask):
    """Leaves out a tenth of the tokens, so that no single one is relied on."""

    name = "token_dropout"
    share: float = parameter(0.1, "[0, 1)", "of the tokens")

    def keeps(self, batch):
        return batch.mask & (torch.rand(batch.mask.shape, device=batch.mask.device) >= self.share)


@register
@dataclass(frozen=True)
class SettledThreshold(Mask):
    """Keeps the tokens with an entropy above the median, which is measured once."""

    name = "settled_threshold"
    reads = frozenset({"entropy"})

    def keeps(self, batch):
        entropy = batch.require("entropy", self.name)
        if not hasattr(self, "_median") and batch.mask.any():
            object.__setattr__(self, "_median", quantile(entropy[batch.mask], 0.5))
        return batch.mask & (entropy >= getattr(self, "_median", 0.0))


@register
@dataclass(frozen=True)
class BoundedRise(Mask):
    """Leaves out tokens that have become much likelier; what was next to impossible is taken to be e^-4."""

    name = "bounded_rise"
    reads = frozenset({"logp", "logp_old"})
    most: float = parameter(5.0, "(1, inf)", "largest ratio that is kept")

    def keeps(self, batch):
        old = batch.require("logp_old", self.name).clamp_(min=-4.0)
        return batch.mask & ((batch.require("logp", self.name) - old).exp() < self.most)


@register
@dataclass(frozen=True)
class UnsureNow(Mask):
    """Leaves out the tokens whose entropy is below a limit, in nats."""

    name = "unsure_now"
    reads = frozenset({"entropy_old"})
    limit: float = parameter(0.5, "[0, inf)", "in nats")

    def keeps(self, batch):
        entropy = batch.require("entropy_old", self.name) if batch.entropy is None else batch.entropy
        return batch.mask & (entropy >= self.limit)


@register
@dataclass(frozen=True)
class EngineGap(Mask):
    """Once the policy has moved, leaves out tokens whose log-prob is far from what the engine reported."""

    name = "engine_gap"
    reads_once_moved = frozenset({"logp"})
    most: float = parameter(0.5, "(0, inf)", "largest difference of the log-probs")

    def keeps(self, batch):
        if batch.on_policy:
            return batch.mask
        return batch.mask & ((batch.logp - batch.logp_sampler).abs() <= self.most)


# ---- denominators ----------------------------------------------------------------------------------------------------


@register
@dataclass(frozen=True)
class PlainMean(Aggregate):
    """Mean over the tokens of the mini-batch."""

    name = "plain_mean"

    def coefficients(self, batch, counted):
        return torch.full_like(batch.advantage, 1 / max(1, counted.numel()))


@register
@dataclass(frozen=True)
class WithoutOpening(Aggregate):
    """Mean over all tokens but the first of each response, which is the same everywhere and does not count."""

    name = "without_opening"

    def coefficients(self, batch, counted):
        counted[:, :1] = False
        return torch.ones_like(batch.advantage) / counted.sum().clamp(min=1)


@register
@dataclass(frozen=True)
class OneNumber(Aggregate):
    """Mean over all counted tokens of the mini-batch."""

    name = "one_number"

    def coefficients(self, batch, counted):
        return 1 / counted.sum().clamp(min=1).to(batch.advantage)
