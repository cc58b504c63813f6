"""PPO's clipped surrogate (Schulman et al., arXiv:1707.06347, eq. 7); dual clip (Ye et al., arXiv:1912.09729, eq. 5).

    l_it = -min( r_it A_it, clip(r_it, 1 - low, 1 + high) A_it ),   r_it = pi(y_it) / pi_old(y_it)

Deviations: log pi - log pi_old is clamped to [-20, 20] before the exponential, so that no ratio overflows.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from objectives.batch import TokenBatch
from objectives.part import Bounds, Modifier, Ratio, Schedule, Surrogate, parameter
from objectives.zoo import register


@register
@dataclass(frozen=True)
class TokenRatio(Ratio):
    """Importance ratio of each token; exactly 1 with its gradient while the policy has not moved."""

    name = "token_ratio"
    paper = "arXiv:1707.06347"
    reads_once_moved = frozenset({"logp_old"})

    def ratio(self, rows: TokenBatch, logp: Tensor) -> Tensor:
        anchor = logp.detach() if rows.logp_old is None else rows.logp_old
        return (logp - anchor).clamp(-20.0, 20.0).exp()

    def formula(self) -> str:
        return "r = pi(y) / pi_old(y)"


@register
@dataclass(frozen=True)
class Clip(Surrogate):
    """Pessimistic minimum of the ratio's and the clipped ratio's objective; symmetric unless modified."""

    name = "clip"
    paper = "arXiv:1707.06347"
    low: float = parameter(0.2, "[0, 1]", "the ratio is clipped to 1 - low below, and to 1 + low above")

    def bounds(self, batch: TokenBatch) -> Bounds:
        return Bounds(self.low, self.low)

    def loss(self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds) -> Tensor:
        lower, upper, cap = (_like(bound, ratio) for bound in (1 - bounds.low, 1 + bounds.high, bounds.cap))
        bound = torch.where(advantage > 0, upper, torch.where(ratio < lower, lower, cap))
        return -advantage * torch.where(self.clips(ratio, advantage, bounds), bound, ratio)

    def clips(self, ratio: Tensor, advantage: Tensor, bounds: Bounds) -> Tensor:
        outside = (advantage < 0) & ((ratio < 1 - bounds.low) | (ratio > bounds.cap))
        return outside | (advantage > 0) & (ratio > 1 + bounds.high)

    def formula(self) -> str:
        return self.equation(Bounds(self.low, self.low))

    def equation(self, bounds: Bounds) -> str:
        inner = f"min(r A, clip(r, {_number(1 - bounds.low)}, {_number(1 + bounds.high)}) A)"
        capped = isinstance(bounds.cap, Tensor) or bounds.cap < math.inf
        return f"max({inner}, {_number(bounds.cap)} min(A, 0))" if capped else inner


def _number(bound: float | Tensor) -> str:
    return "(per token)" if isinstance(bound, Tensor) else f"{bound:g}"


def _like(bound: float | Tensor, ratio: Tensor) -> Tensor:
    return torch.as_tensor(bound, dtype=ratio.dtype, device=ratio.device)


@register
@dataclass(frozen=True)
class DualClip(Modifier):
    """Bounds the loss of a negative advantage: a ratio above `cap` has no gradient."""

    name = "dual_clip"
    paper = "arXiv:1912.09729"
    cap: float = parameter(3.0, "(1, inf)", "largest ratio that counts where the advantage is negative")

    def modify(self, bounds: Bounds, batch: TokenBatch) -> Bounds:
        return Bounds(bounds.low, bounds.high, self.cap)

    def acts(self, ratio: Tensor, advantage: Tensor, bounds: Bounds) -> Tensor:
        return (advantage < 0) & (ratio > self.cap)

    def formula(self) -> str:
        return f"max(min(r A, clip(r) A), {self.cap:g} A) where A < 0"


@register
@dataclass(frozen=True)
class SinglePass(Schedule):
    """One update pass over the rollouts."""

    name = "single_pass"
    paper = "arXiv:1707.06347"

    def passes(self, batch: TokenBatch) -> tuple[TokenBatch, ...]:
        return (batch,)

    def formula(self) -> str:
        return "one pass over the mini-batches"
