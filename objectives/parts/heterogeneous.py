"""HAPO's treatment of tokens by their entropy (Liu et al., arXiv:2509.16591, parts C and D).

    h = log H - its rho-quantile, over its largest value where h > 0, over its smallest's size where h < 0: in [-1, 1]
    clip:    lower bound 1 - low (1 - alpha min(h, 0)),  upper bound 1 + high (1 + alpha max(h, 0))
    weight:  1 + beta h  where h > 0 and r is outside the half widths, or h <= 0 and r is inside them; 1 elsewhere

H is the current policy's, the quantile the value of nearest rank. The code divides by the smallest h itself, so that
the surest tokens count as the least sure; here by its size, as the text means. The weight has the clip's widths as
parameters of its own; beside each other the two must have the same. Deviations: H is at least 1e-8; log-ratios are
clamped to [-20, 20].
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from objectives.batch import TokenBatch, over_scope, scope_reads
from objectives.errors import ObjectiveError
from objectives.kinds import Bounds, Modifier, Weight
from objectives.part import Part, parameter
from objectives.parts.token_ratio import log_ratio
from objectives.zoo import register


@dataclass(frozen=True)
class _ByEntropy(Part):
    """What both read of the entropy."""

    paper = "arXiv:2509.16591"
    alpha: float = parameter(1.0, "[0, 1]", "by what share of itself a width grows at most")
    low: float = parameter(0.2, "[0, 0.5]", "the ratio is clipped to 1 - low below, where h >= 0")
    high: float = parameter(0.28, "[0, inf)", "the ratio is clipped to 1 + high above, where h <= 0")
    rho: float = parameter(0.8, "(0, 1]", "quantile of log H that has h = 0")
    scope: str = parameter("minibatch", ("minibatch", "microbatch"), "where quantile and largest values are taken")

    def height(self, batch: TokenBatch) -> Tensor:
        """[N, T] h, 0 outside the mask."""
        return over_scope(batch, self.scope, self._height)

    def _height(self, batch: TokenBatch) -> Tensor:
        entropy = batch.require("entropy", self.name).clamp(min=1e-8).log()
        pool = entropy[batch.mask]
        if len(pool) == 0:
            return torch.zeros_like(entropy)
        rank = max(1, math.ceil(self.rho * len(pool) - 1e-9))
        height = torch.where(batch.mask, entropy - pool.sort().values[rank - 1], 0.0)
        size = torch.where(height > 0, height.amax(), -height.amin())
        return torch.where(height == 0, 0.0, height / size)

    def check(self, parts: Mapping[str, Part]) -> None:
        super().check(parts)
        both = [part for part in parts.values() if isinstance(part, _ByEntropy)]
        for name in (item.name for item in fields(_ByEntropy)):
            if len({getattr(part, name) for part in both}) > 1:
                said = " and ".join(f"{part.name}({name}={getattr(part, name)})" for part in both)
                raise ObjectiveError(f"{said} disagree: leave one of them out, or give both the same")

    def where(self) -> str:
        return f"h = log H less its {self.rho:g} quantile, over the largest size of its sign, from -1 to 1"

    def widths(self, height: Tensor) -> tuple[Tensor, Tensor]:
        """[N, T] each: the widths of the clip below and above 1."""
        up, down = height.clamp(min=0), height.clamp(max=0)
        return self.low * (1 - self.alpha * down), self.high * (1 + self.alpha * up)


@register
@dataclass(frozen=True)
class HeterogeneousClip(_ByEntropy, Modifier):
    """Lets sure tokens fall further and unsure ones rise further."""

    name = "heterogeneous_clip"
    sets = frozenset({"low", "high"})

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"entropy"}) | scope_reads(self.scope)

    def modify(self, bounds: Bounds, batch: TokenBatch) -> Bounds:
        low, high = self.widths(self.height(batch))
        return replace(bounds, low=low, high=high)

    def numbers(self) -> Mapping[str, str]:
        low, high = _bounds(self.low, self.high, self.alpha)
        return {"low": low, "high": high}

    def formula(self) -> str:
        return "clip bounds {low} and {high}, ".format(**self.numbers()) + self.where()


@register
@dataclass(frozen=True)
class ZoneReweighting(_ByEntropy, Weight):
    """Weighs unsure tokens that have moved more, and sure tokens that have not moved less."""

    name = "zone_reweighting"
    planned = True
    beta: float = parameter(1.0, "[0, 1]", "how much of h the weight follows")

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"logp", "logp_old", "entropy"}) | scope_reads(self.scope)

    def weight(self, batch: TokenBatch) -> Tensor:
        height = self.height(batch)
        low, high = self.widths(height)
        ratio = log_ratio(batch, batch.require("logp", self.name), self.name).exp()
        inside = (ratio > 1 - low / 2) & (ratio < 1 + high / 2)
        return torch.where((height > 0) != inside, 1 + self.beta * height, 1.0)

    def formula(self) -> str:
        low, high = _bounds(self.low / 2, self.high / 2, self.alpha)
        return f"A *= 1 + {self.beta:g} h where h > 0 and r is outside {low} .. {high}, or h <= 0 and it is inside"


def _bounds(low: float, high: float, alpha: float) -> tuple[str, str]:
    return f"1 - {low:g} (1 - {alpha:g} min(h, 0))", f"1 + {high:g} (1 + {alpha:g} max(h, 0))"
