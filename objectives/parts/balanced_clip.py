"""BAPO's search for clip bounds (Xi et al., arXiv:2510.18927, eq. 8, Algorithm 1); see the recipe `bapo`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from objectives.batch import TokenBatch, over_scope, scope_reads
from objectives.errors import ObjectiveError
from objectives.kinds import Bounds, Modifier
from objectives.lazy import Tensor, torch
from objectives.part import Part, parameter
from objectives.parts.token_ratio import log_ratio
from objectives.zoo import register

MOST_STEPS = 10_000
"""From a bound to its end: each is tried in turn."""


@register
@dataclass(frozen=True)
class BalancedClip(Modifier):
    """Widens the clip until good tokens have their share of the objective."""

    name = "balanced_clip"
    paper = "arXiv:2510.18927"
    troubles = ("stale_rollouts", "entropy_collapse")
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

    def check(self, parts: Mapping[str, Part]) -> None:
        super().check(parts)
        for name in ("lower", "upper"):
            if self._steps(name) > MOST_STEPS:
                raise ObjectiveError(
                    f"{self.term()}: {name}_most is more than {MOST_STEPS:,} steps from {name}; raise {name}_step"
                )

    def _steps(self, name: str) -> int:
        start, most, step = (getattr(self, f"{name}{what}") for what in ("", "_most", "_step"))
        return int(max(0, min(MOST_STEPS + 1, (most - start) / step + 1e-9)))

    def modify(self, bounds: Bounds, batch: TokenBatch) -> Bounds:
        if batch.on_policy:  # all ratios are 1, within any bounds
            return replace(bounds, low=1 - self.lower, high=self.upper - 1)
        limits = over_scope(batch, self.scope, self._search)
        return replace(bounds, low=1 - limits[:, :1], high=limits[:, 1:] - 1)

    def _search(self, batch: TokenBatch) -> Tensor:
        """[N, 2]: the lower and the upper bound, the same for all rows."""
        advantage = torch.where(batch.mask, batch.require("advantage", self.name), 0.0).double()
        logp = batch.require("logp", self.name).double()
        gain = advantage * batch.require("logp_old", self.name).double().exp() if self.weighted else advantage
        ratio, good, bad = log_ratio(batch, logp, self.name).exp(), gain.clamp(min=0), (-gain).clamp(min=0)
        bounds = {"lower": self.lower, "upper": self.upper}
        for name in (self.first, "lower" if self.first == "upper" else "upper"):
            start, step = getattr(self, name), getattr(self, f"{name}_step")
            for count in range(1, self._steps(name) + 1):
                positive = (good * ratio.clamp(max=bounds["upper"])).sum()
                negative = (bad * ratio.clamp(min=bounds["lower"])).sum()
                whole = negative + positive if self.measure == "share" else negative
                if positive >= self.target * (1 - 1e-6) * whole:
                    break
                bounds[name] = start + count * step
        return batch.require("advantage", self.name).new_tensor(list(bounds.values())).expand(len(logp), 2)

    def numbers(self) -> Mapping[str, str]:
        return {"low": f"{self.lower:g}..{self.lower_most:g}", "high": f"{self.upper:g}..{self.upper_most:g}"}

    def where(self) -> str:
        measure = "P/(P + N)" if self.measure == "share" else "P/N"
        second = "lower" if self.first == "upper" else "upper"
        rises = f"the {self.first} bound rises by {getattr(self, f'{self.first}_step'):g}"
        rises += f", then the {second} by {getattr(self, f'{second}_step'):g}"
        weight = "p_old " if self.weighted else ""
        where = " of each micro-batch" if self.scope == "microbatch" else ""
        good, bad = f"{weight}|A| min(p/p_old, upper) where A > 0", f"{weight}|A| max(p/p_old, lower) where A < 0"
        sums = f"P and N the sums of {good} and {bad}"
        return f"{rises}, until {measure} >= {self.target:g}, {sums}{where}"

    def formula(self) -> str:
        return "clip bounds {low} and {high}, ".format(**self.numbers()) + self.where()
