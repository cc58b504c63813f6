"""BAPO: balanced policy optimisation with adaptive clipping (Xi et al., arXiv:2510.18927, eq. 8, Algorithm 1).

    P = sum_{A > 0} pi_old min(r, upper) A,   N = sum_{A < 0} pi_old max(r, lower) |A|
    from [0.6, 1.2] on, while P/(P + N) < 0.4:  upper += 0.05 up to 3.0, then lower += 0.02 up to 0.9

The bounds of PPO's clip are searched anew for every mini-batch, over the tokens of all processes. Eq. 8 prints |P - N|
below the line; the text means the share, which is taken here. A clipped token counts with the bound, so that a higher
lower bound cannot raise the share: once the upper bound is exhausted, the lower one runs to its end.
Deviations: a share that is the target up to 1e-6 has reached it. Bounds that it is added to give way.
Variant authors (their verl): lower bound first, P/N >= 1 without pi_old, other ends, dual_clip(cap=3), per micro-batch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from objectives.batch import TokenBatch, over_scope, scope_reads
from objectives.kinds import Bounds, Modifier
from objectives.part import Part, parameter
from objectives.parts.clip import Clip
from objectives.parts.dual_clip import DualClip
from objectives.parts.group_norm import GroupNorm
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio, log_ratio
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class BalancedClip(Modifier):
    """Widens the clip until good tokens have their share of the objective."""

    name = "balanced_clip"
    paper = "arXiv:2510.18927"
    sets = frozenset({"low", "high"})
    reads_once_moved = frozenset({"logp", "logp_old"})
    target: float = parameter(0.4, "[0, inf)", "what the measure has to reach")
    lower: float = parameter(0.6, "[0, 1]", "the lower bound of the ratio at first")
    lower_most: float = parameter(0.9, "[0, 1]", "and at most")
    lower_step: float = parameter(0.02, "(0, 1]", "by how much it rises at a time")
    upper: float = parameter(1.2, "[1, inf)", "the upper bound of the ratio at first")
    upper_most: float = parameter(3.0, "[1, inf)", "and at most")
    upper_step: float = parameter(0.05, "(0, inf)", "by how much it rises at a time")
    first: str = parameter("upper", ("upper", "lower"), "which bound is moved to its end before the other")
    measure: str = parameter("share", ("share", "ratio"), "P/(P + N), or P/N")
    weighted: bool = parameter(True, None, "whether tokens count by their old probability")
    scope: str = parameter("minibatch", ("minibatch", "microbatch"), "where the sums are taken")

    @property
    def needs(self) -> frozenset[str]:
        return scope_reads(self.scope)

    def modify(self, bounds: Bounds, batch: TokenBatch) -> Bounds:
        if batch.on_policy:  # all ratios are 1, within any bounds
            return replace(bounds, low=1 - self.lower, high=self.upper - 1)
        found = over_scope(batch, self.scope, self._search)
        return replace(bounds, low=1 - found[:, :1], high=found[:, 1:] - 1)

    def _search(self, batch: TokenBatch) -> Tensor:
        """[N, 2]: the lower and the upper bound, the same for all rows."""
        advantage = torch.where(batch.mask, batch.require("advantage", self.name), 0.0).double()
        logp = batch.require("logp", self.name).double()
        gain = advantage * batch.require("logp_old", self.name).double().exp() if self.weighted else advantage
        ratio, good, bad = log_ratio(batch, logp, self.name).exp(), gain.clamp(min=0), (-gain).clamp(min=0)
        bounds = {"lower": self.lower, "upper": self.upper}
        for name in (self.first, "lower" if self.first == "upper" else "upper"):
            start, step = getattr(self, name), getattr(self, f"{name}_step")
            for count in range(1, int((getattr(self, f"{name}_most") - start) / step + 1e-9) + 1):
                positive = (good * ratio.clamp(max=bounds["upper"])).sum()
                negative = (bad * ratio.clamp(min=bounds["lower"])).sum()
                whole = negative + positive if self.measure == "share" else negative
                if positive >= self.target * (1 - 1e-6) * whole:
                    break
                bounds[name] = start + count * step
        return batch.require("advantage", self.name).new_tensor(list(bounds.values())).expand(len(logp), 2)

    def numbers(self) -> Mapping[str, str]:
        return {"low": f"{self.lower:g}..{self.lower_most:g}", "high": f"{self.upper:g}..{self.upper_most:g}"}

    def formula(self) -> str:
        measure = "P/(P + N)" if self.measure == "share" else "P/N"
        return f"clip bounds from {self.lower:g} and {self.upper:g} up until {measure} >= {self.target:g}"


_SHARED: tuple[Part, ...] = (GroupNorm(), TokenRatio(), Clip(), TokenMean(), SinglePass())
_AUTHORS = BalancedClip(
    target=1.0,
    lower_most=0.8,
    lower_step=0.05,
    upper_most=2.0,
    first="lower",
    measure="ratio",
    weighted=False,
    scope="microbatch",
)

recipe(
    "bapo",
    paper="arXiv:2510.18927",
    summary="clip bounds that widen until good tokens have their share",
    variants={"paper": (*_SHARED, BalancedClip()), "authors": (*_SHARED, _AUTHORS, DualClip(cap=3.0))},
    contribution=("balanced_clip",),
    doc=__doc__,
)
