"""M2PO's clip as the authors' code has it (arXiv:2510.01161, Infini-AI-Lab/M2PO); see the recipe `m2po`."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from objectives.batch import Prepared, over_scope, scope_reads
from objectives.kinds import Bounds, Modifier
from objectives.lazy import Tensor, torch
from objectives.order import running_sum
from objectives.part import parameter
from objectives.parts.token_ratio import log_ratio
from objectives.zoo import register


@register
@dataclass(frozen=True)
class SecondMomentClip(Modifier):
    """Clips only as far as the second moment of the log-ratios demands."""

    name = "second_moment_clip"
    paper = "arXiv:2510.01161"
    troubles = ("stale_rollouts",)
    sets = frozenset({"low", "high"})
    reads_once_moved = frozenset({"logp", "logp_old"})
    budget: float = parameter(0.04, "(0, inf)", "largest second moment of the clipped log-ratios")
    low: float = parameter(0.0, "[0, 1]", "smallest width below 1")
    high: float = parameter(0.0, "[0, inf)", "smallest width above 1")
    scope: str = parameter("minibatch", ("minibatch", "microbatch"), "where the second moment is taken")

    @property
    def needs(self) -> frozenset[str]:
        return scope_reads(self.scope)

    def modify(self, bounds: Bounds, batch: Prepared) -> Bounds:
        if batch.on_policy:  # all ratios are 1, within any bounds
            return replace(bounds, low=1.0, high=math.inf)
        tau = over_scope(batch, self.scope, self._tau)
        low, high = (-torch.expm1(-tau)).clamp(min=self.low), torch.expm1(tau).clamp(min=self.high)
        return replace(bounds, low=low.to(batch.require("logp", self.name)), high=high.to(low))

    def _tau(self, batch: Prepared) -> Tensor:
        """[n, 1] float64: the width, the same for all rows; infinite where the harmful tokens are within the budget."""
        squares = harmful_squares(batch, self.name)
        ordered = squares[squares > 0].sort().values
        count, tau = len(ordered), math.inf
        if count and ordered.sum() > self.budget * count * (1 + 1e-6):
            left = count - torch.arange(count, device=ordered.device)
            capped = running_sum(ordered, 0) - ordered + left * ordered
            first = int((capped > self.budget * count * (1 + 1e-6)).nonzero()[0])
            tau = _below(ordered, first - 1) if first else 0.0
        return ordered.new_full((len(batch.mask), 1), tau)

    def numbers(self) -> Mapping[str, str]:
        return {"low": f"min(exp(-tau), {1 - self.low:g})", "high": f"max(exp(tau), {1 + self.high:g})"}

    def where(self) -> str:
        where = " in each micro-batch" if self.scope == "microbatch" else ""
        return f"z = log r; tau = the largest |z| with mean of min(z^2, tau^2) < {self.budget:g} where A z > 0{where}"

    def formula(self) -> str:
        return "clip bounds {low} and {high}, ".format(**self.numbers()) + self.where()


def _below(squares: Tensor, place: int) -> float:
    """A width just below the root of a square, so that rounding moves no log-ratio over it."""
    root, smaller = squares[place].sqrt().item(), squares[squares < squares[place] * (1 - 1e-5)]
    halfway = (root + smaller[-1].sqrt().item()) / 2 if len(smaller) else 0.0
    return max(halfway, 0.999 * root)


def harmful_squares(batch: Prepared, reader: str) -> Tensor:
    """[N, T] float64: the squared log-ratio where it has moved in the direction of the advantage; 0 elsewhere."""
    change = log_ratio(batch, batch.require("logp", reader), reader).double()
    return torch.where(batch.mask & (batch.advantage * change > 0), change, 0.0).square()
