"""How unsure HAPO takes a token to be (Liu et al., arXiv:2509.16591, parts C and D).

    h = log H - its rho-quantile, over its largest value where h > 0, over its smallest's size where h < 0: in [-1, 1]

H is the current policy's, the quantile the value of rank ceil(rho n). sign=lost is the authors' code: it divides by the
smallest h itself, so that the surest tokens count as the least sure, and takes rank 1 + round(rho (n - 1)).
Deviation: H is at least 1e-8.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

from objectives.batch import TokenBatch, over_scope
from objectives.errors import ObjectiveError
from objectives.lazy import Tensor, torch
from objectives.part import Part, parameter


@dataclass(frozen=True)
class ByEntropy(Part):
    """What `zone_reweighting` and `heterogeneous_clip` read of the entropy, and the widths that follow from it."""

    paper = "arXiv:2509.16591"
    alpha: float = parameter(1.0, "[0, 1]", "by what share of itself a width grows at most")
    low: float = parameter(0.2, "[0, 0.5]", "the ratio is clipped to 1 - low below, where h >= 0")
    high: float = parameter(0.28, "[0, inf)", "the ratio is clipped to 1 + high above, where h <= 0")
    rho: float = parameter(0.8, "(0, 1]", "quantile of log H that has h = 0")
    scope: str = parameter("minibatch", ("minibatch", "microbatch"), "where quantile and largest values are taken")
    sign: str = parameter("kept", ("kept", "lost"), "whether h of sure tokens is negative, or positive as in the code")

    def height(self, batch: TokenBatch) -> Tensor:
        """[N, T] h, 0 outside the mask."""
        return over_scope(batch, self.scope, self._height)

    def _height(self, batch: TokenBatch) -> Tensor:
        entropy = batch.require("entropy", self.name).clamp(min=1e-8).log()
        pool = entropy[batch.mask]
        if len(pool) == 0:
            return torch.zeros_like(entropy)
        before = (
            math.ceil(self.rho * len(pool) - 1e-9) - 1 if self.sign == "kept" else round(self.rho * (len(pool) - 1))
        )
        height = torch.where(batch.mask, entropy - pool.sort().values[max(0, before)], 0.0)
        below = -height.amin() if self.sign == "kept" else height.amin()
        size = torch.where(height > 0, height.amax(), below)
        return torch.where(height == 0, 0.0, height / size)

    def check(self, parts: Mapping[str, Part]) -> None:
        super().check(parts)
        both = [part for part in parts.values() if isinstance(part, ByEntropy)]
        for name in (item.name for item in fields(ByEntropy)):
            if len({getattr(part, name) for part in both}) > 1:
                terms = " and ".join(f"{part.name}({name}={getattr(part, name)})" for part in both)
                raise ObjectiveError(f"{terms} disagree: leave one of them out, or give both the same")

    def where(self) -> str:
        where = " in each micro-batch" if self.scope == "microbatch" else ""
        if self.sign == "lost":
            return f"h = |log H less its {self.rho:g} quantile, rounded|, over the largest size of its sign{where}"
        return f"h = log H less its {self.rho:g} quantile, over the largest size of its sign{where}"

    def widths(self, height: Tensor) -> tuple[Tensor, Tensor]:
        """[N, T] each: the widths of the clip below and above 1."""
        up, down = height.clamp(min=0), height.clamp(max=0)
        return self.low * (1 - self.alpha * down), self.high * (1 + self.alpha * up)

    def written_bounds(self, share: float = 1.0) -> tuple[str, str]:
        """The clip's bounds as a formula has them, at a share of the widths."""
        low, high = share * self.low, share * self.high
        return f"1 - {low:g} (1 - {self.alpha:g} min(h, 0))", f"1 + {high:g} (1 + {self.alpha:g} max(h, 0))"
