"""Parts that know the truth of a language: positive controls. A batch has no token ids, so they go by what it has."""

from dataclasses import dataclass

import torch
from torch import Tensor

from objectives import Mask, Prepared, Reward, TokenBatch, Weight, parameter, register
from objectives.methods.tokens import TopEntropy


@register
@dataclass(frozen=True)
class AmplifyRare(Weight):
    """A' = w A where p_old < tau and A > 0: for languages whose rare tokens are known."""

    name = "amplify_rare"
    reads = frozenset({"logp_old"})
    tau: float = parameter(0.2, "(0, 1)", "probability below which a token is weighed")
    w: float = parameter(5.0, "(0, inf)", "its weight")

    def weight(self, batch: Prepared) -> Tensor:
        rare = batch.require("logp_old", self.name).exp() < self.tau
        return torch.where((batch.advantage > 0) & rare, self.w, 1.0)

    def formula(self) -> str:
        return f"A *= {self.w:g} where A > 0 and p_old < {self.tau:g}"


@register
@dataclass(frozen=True)
class KnownPlaces(Mask):
    """Keeps every so manieth token of a response, or all others: for languages whose decisive places are known."""

    name = "known_places"
    period: int = parameter(5, "[1, inf)", "tokens from one such place to the next; the first is the period's last")
    others: bool = parameter(False, None, "keep the other tokens instead")

    def keeps(self, batch: Prepared) -> Tensor:
        position = torch.arange(batch.mask.shape[1], device=batch.mask.device)
        decisive = (position + 1) % self.period == 0
        return batch.mask & (decisive != self.others)

    def formula(self) -> str:
        return f"(t + 1) % {self.period} {'!=' if self.others else '=='} 0"


@register
@dataclass(frozen=True)
class ShorterWrong(Reward):
    """R -= |y| / limit of wrong responses: takes back what makes them grow."""

    name = "shorter_wrong"
    reads = frozenset({"reward", "correct", "max_length"})

    def shaping(self, batch: TokenBatch) -> Tensor:
        assert batch.max_length is not None
        length = batch.lengths.to(batch.require("reward", self.name)) / batch.max_length
        return -length.where(~batch.right(self.name), 0.0)

    def formula(self) -> str:
        return "R -= |y|/limit where wrong"


@register
@dataclass(frozen=True)
class FirstToken(Mask):
    """Keeps the first token of a response, or all others: for languages in which it decides."""

    name = "first_token"
    others: bool = parameter(False, None, "keep the other tokens instead")

    def keeps(self, batch: Prepared) -> Tensor:
        first = torch.arange(batch.mask.shape[1], device=batch.mask.device) == 0
        return batch.mask & (first != self.others)

    def formula(self) -> str:
        return "t != 0" if self.others else "t == 0"


@register
@dataclass(frozen=True)
class LowEntropy(TopEntropy):
    """Keeps the tokens that `top_entropy` of the same `fraction` leaves out."""

    name = "low_entropy"

    def keeps(self, batch: TokenBatch) -> Tensor:
        return batch.mask & ~super().keeps(batch)

    def formula(self) -> str:
        return f"not ({super().formula()})"
