"""Parts that their authors believe in; `faults` says what is wrong with each of them."""

from dataclasses import dataclass

import torch

from objectives import (
    Action,
    Penalty,
    Schedule,
    k3,
    parameter,
    register,
)

# ---- penalties -------------------------------------------------------------------------------------------------------


@register
@dataclass(frozen=True)
class MeanDrift(Penalty):
    """Holds the mean log-ratio to the old policy near zero; single tokens may move."""

    name = "mean_drift"
    reads = frozenset({"logp_old"})
    beta: float = parameter(1.0, "[0, inf)", "weight of the square in the loss")

    def penalty(self, rows, logp, entropy):
        change = (logp - rows.require("logp_old", self.name)) * rows.mask
        return self.beta * (change.sum() / rows.mask.sum().clamp(min=1)).square().expand(logp.shape)


@register
@dataclass(frozen=True)
class SquareDrift(Penalty):
    """The squared log-ratio to the reference, a mean over responses."""

    name = "square_drift"
    reads = frozenset({"logp_ref"})
    beta: float = parameter(0.1, "[0, inf)", "weight of the square in the loss")

    def penalty(self, rows, logp, entropy):
        return self.beta * (logp - rows.require("logp_ref", self.name)).square() / max(1, len(logp))


@register
@dataclass(frozen=True)
class Unlikelihood(Penalty):
    """-log(1 - p) on the tokens of bad responses."""

    name = "unlikelihood"
    beta: float = parameter(0.1, "[0, inf)", "weight of the term in the loss")

    def penalty(self, rows, logp, entropy):
        return self.beta * (rows.advantage < 0) * -torch.log1p(-logp.exp())


@register
@dataclass(frozen=True)
class Distance(Penalty):
    """The distance of the log-prob from the reference's."""

    name = "distance"
    reads = frozenset({"logp_ref"})
    beta: float = parameter(0.1, "[0, inf)", "weight of the distance in the loss")

    def penalty(self, rows, logp, entropy):
        return self.beta * (logp - rows.require("logp_ref", self.name)).square().sqrt()


@register
@dataclass(frozen=True)
class AnchorSquare(Penalty):
    """The squared difference of the log-prob from an anchor's."""

    name = "anchor_square"
    reads = frozenset({"logp_old"})
    beta: float = parameter(0.1, "[0, inf)", "weight of the square in the loss")
    anchor: str = parameter("sampler", ("old", "sampler"), "the policy of the rollouts, or the engine")

    def penalty(self, rows, logp, entropy):
        return self.beta * (logp - getattr(rows, f"logp_{self.anchor}")).square()


@register
@dataclass(frozen=True)
class FrugalKL(Penalty):
    """Divergence from the reference (k3), with little memory."""

    name = "frugal_kl"
    reads = frozenset({"logp_ref"})
    beta: float = parameter(0.1, "[0, inf)", "weight of the divergence in the loss")

    def penalty(self, rows, logp, entropy):
        with torch.no_grad():
            return self.beta * k3(rows.require("logp_ref", self.name) - logp)


@register
@dataclass(frozen=True)
class PrefixDrift(Penalty):
    """The squared log-ratio of each prefix to the reference."""

    name = "prefix_drift"
    reads = frozenset({"logp_ref"})
    beta: float = parameter(0.01, "[0, inf)", "weight of the square in the loss")

    def penalty(self, rows, logp, entropy):
        change = torch.where(rows.mask, logp - rows.require("logp_ref", self.name), 0.0)
        return self.beta * change.cumsum(1).square()


# ---- schedules -------------------------------------------------------------------------------------------------------


@register
@dataclass(frozen=True)
class RandomHalves(Schedule):
    """Two passes, each over a random half of the tokens."""

    name = "random_halves"
    pass_count = 2

    def passes(self, batch):
        first = batch.mask & (torch.rand(batch.mask.shape, device=batch.mask.device) < 0.5)
        batch = batch.record(self.name, Action.GROUP, first)
        halves = (first, batch.mask & ~first)
        return [batch.with_fields(policy_mask=half, penalty_mask=half) for half in halves]


@register
@dataclass(frozen=True)
class GoodThenBad(Schedule):
    """First a pass over the tokens of good responses, then one over the others."""

    name = "good_then_bad"

    def passes(self, batch):
        good = batch.mask & (batch.advantage > 0)
        batch = batch.record(self.name, Action.GROUP, good)
        return [batch.with_fields(policy_mask=part, penalty_mask=part) for part in (good, batch.mask & ~good)]
