"""DAPO (Yu et al., arXiv:2503.14476, eq. 8-13): clip-higher, dynamic sampling, token-level loss, overlong shaping.

    J = E [ 1 / sum_i |y_i|  sum_i sum_t min( r A, clip(r, 0.8, 1.28) A ) ],
    0 < #correct < G

Open in the paper: over what the token mean runs. Its formula says the prompt (scope=prompt); its code says the
micro-batch (scope=microbatch); the default here is the mini-batch, as in later frameworks.
Deviations: soft_overlong's lengths follow the run's response limit unless given, in the paper's proportion 4096/20480.
The recipe leaves overlong_filter out, as the authors' best runs did.
Variant authors (verl recipe/dapo): dual_clip(cap=10); token mean per micro-batch, weighted by its rows.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from objectives.batch import TokenBatch
from objectives.errors import ObjectiveError
from objectives.groups import group_index, group_is_constant, group_sum
from objectives.methods.grpo import GroupNorm
from objectives.methods.ppo import Clip, DualClip, SinglePass, TokenRatio
from objectives.part import Aggregate, Bounds, Modifier, Reward, Select, parameter
from objectives.zoo import recipe, register

PAPER = "arXiv:2503.14476"


@register
@dataclass(frozen=True)
class SoftOverlong(Reward):
    """Soft overlong punishment (eq. 13): a penalty that grows from 0 to 1 over the last `cache` tokens of the limit."""

    name = "soft_overlong"
    paper = PAPER
    max_length: int | None = parameter(None, "[1, inf)", "limit in tokens; none: the run's response limit")
    cache: int | None = parameter(None, "[1, inf)", "tokens over which the penalty grows; none: a fifth of the limit")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_length is not None and self.cache is not None and self.cache > self.max_length:
            raise ObjectiveError(f"soft_overlong: cache={self.cache} exceeds max_length={self.max_length}")

    def shaping(self, batch: TokenBatch) -> Tensor:
        limit = self.max_length or batch.max_length
        if limit is None:
            raise ObjectiveError("soft_overlong: the batch has no max_length; set it, or soft_overlong(max_length=...)")
        cache = self.cache or limit / 5
        length = batch.mask.sum(1).to(batch.require("reward", self.name))
        return ((limit - cache - length) / cache).clamp(-1.0, 0.0)

    def formula(self) -> str:
        limit = self.max_length or "limit"
        return f"R += clip(({limit} - {self.cache or 'limit/5'} - |y|) / {self.cache or 'limit/5'}, -1, 0)"


@register
@dataclass(frozen=True)
class DynamicSampling(Select):
    """Drops groups whose responses are all correct or all wrong and samples further prompts in their place."""

    name = "dynamic_sampling"
    paper = PAPER
    reads = frozenset({"correct"})
    refills = True

    def selects(self, batch: TokenBatch) -> Tensor:
        index, groups = group_index(batch.require("group", self.name))
        return ~group_is_constant(batch.require("correct", self.name), index, groups)

    def formula(self) -> str:
        return "only groups with 0 < #correct < G, refilled"


@register
@dataclass(frozen=True)
class OverlongFilter(Select):
    """Leaves truncated responses out of the loss; their rewards still count in the group's statistics."""

    name = "overlong_filter"
    paper = PAPER
    reads = frozenset({"truncated"})

    def selects(self, batch: TokenBatch) -> Tensor:
        return ~batch.require("truncated", self.name)

    def formula(self) -> str:
        return "without truncated responses"


@register
@dataclass(frozen=True)
class ClipHigher(Modifier):
    """Raises the upper clip bound, so that unlikely tokens of good responses can grow further."""

    name = "clip_higher"
    paper = PAPER
    high: float = parameter(0.28, "[0, inf)", "the ratio is clipped to 1 + high above")

    def modify(self, bounds: Bounds, batch: TokenBatch) -> Bounds:
        return Bounds(bounds.low, self.high, bounds.cap)

    def acts(self, ratio: Tensor, advantage: Tensor, bounds: Bounds) -> Tensor:
        low, high = sorted((self.high, float(bounds.high)))
        return (advantage > 0) & (ratio > 1 + low) & (ratio <= 1 + high)

    def formula(self) -> str:
        return f"upper clip bound {1 + self.high:g}"


@register
@dataclass(frozen=True)
class TokenMean(Aggregate):
    """Mean over all counted tokens of the mini-batch, of each prompt (then over prompts), or of each micro-batch.

    scope=microbatch weighs a micro-batch by its share of the responses (verl before its engine workers).
    """

    name = "token_mean"
    paper = PAPER
    scope: str = parameter("minibatch", ("minibatch", "prompt", "microbatch"), "what the mean runs over")

    def coefficients(self, batch: TokenBatch, counted: Tensor) -> Tensor:
        pool, pools = self._pools(batch)
        tokens = group_sum(counted.sum(1), pool, pools).clamp(min=1).to(batch.require("advantage", self.name))
        responses = group_sum(batch.mask.any(1).long(), pool, pools)
        share = responses > 0 if self.scope == "prompt" else responses
        return (share / (share.sum().clamp(min=1) * tokens))[pool][:, None].expand(batch.mask.shape)

    def _pools(self, batch: TokenBatch) -> tuple[Tensor, int]:
        if self.scope == "prompt":
            return group_index(batch.require("group", "token_mean(scope=prompt)"))
        if self.scope == "microbatch" and batch.micro_batch is not None:
            return group_index(batch.micro_batch)
        return torch.zeros(len(batch.mask), dtype=torch.long, device=batch.mask.device), 1

    def formula(self) -> str:
        where = {"minibatch": "", "prompt": " of each prompt", "microbatch": " of each micro-batch"}[self.scope]
        return f"L = mean over the counted tokens{where}"


_SHARED = (GroupNorm(), TokenRatio(), Clip(), ClipHigher(), SinglePass())
_IDEAS = (SoftOverlong(), DynamicSampling())

recipe(
    "dapo",
    paper=PAPER,
    summary="clip-higher, dynamic sampling, token-level loss, soft overlong punishment; no KL",
    variants={
        "paper": (*_IDEAS, *_SHARED, TokenMean()),
        "authors": (*_IDEAS, *_SHARED, TokenMean(scope="microbatch"), DualClip(cap=10.0)),
    },
    contribution=("soft_overlong", "dynamic_sampling", "clip_higher", "token_mean"),
    doc=__doc__,
)
