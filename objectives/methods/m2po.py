"""M2PO: a clip as wide as a second moment allows (arXiv:2510.01161).

    harmful: A > 0 and r > 1, or A < 0 and r < 1;   z = log pi/pi_old
    tau = the largest with  mean over harmful tokens of min(z^2, tau^2) <= budget
    bounds  exp(-tau) and exp(tau), at least 0.3 below 1 and 0.5 above

Searched anew for every mini-batch, over the tokens of all processes; within the budget nothing is clipped. The budget
is not published, so that it is asked for. Bounds that it is added to give way. Open: its base; here GRPO's advantage
and the mean over all tokens. Implementations take the largest |z| that stays within the budget for tau, which leaves
it to rounding whether that token is clipped. Deviations: each z is clamped to [-20, 20].
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from objectives.batch import TokenBatch
from objectives.kinds import Bounds, Modifier
from objectives.part import ASKED, parameter
from objectives.parts.clip import Clip
from objectives.parts.group_norm import GroupNorm
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio, log_ratio
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class SecondMomentClip(Modifier):
    """Clips only as far as the second moment of the log-ratios demands."""

    name = "second_moment_clip"
    paper = "arXiv:2510.01161"
    sets = frozenset({"low", "high"})
    reads_once_moved = frozenset({"logp", "logp_old"})
    budget: float = parameter(ASKED, "(0, inf)", "largest second moment of the clipped log-ratios")
    low: float = parameter(0.3, "[0, 1]", "smallest width below 1")
    high: float = parameter(0.5, "[0, inf)", "smallest width above 1")

    def modify(self, bounds: Bounds, batch: TokenBatch) -> Bounds:
        if batch.on_policy:  # all ratios are 1, within any bounds
            return replace(bounds, low=self.low, high=self.high)
        advantage = batch.require("advantage", self.name)
        change = log_ratio(batch, batch.require("logp", self.name), self.name)
        tau = self._tau(change[batch.mask & (advantage * change > 0)].double().square().sort().values)
        return replace(bounds, low=max(-math.expm1(-tau), self.low), high=max(math.expm1(tau), self.high))

    def _tau(self, squares: Tensor) -> float:
        """The width for the ascending squares [n] of the harmful tokens; infinite where they are within the budget."""
        count = len(squares)
        if count == 0 or squares.sum() <= self.budget * count * (1 + 1e-6):
            return math.inf
        below = squares.cumsum(0) - squares
        left = count - torch.arange(count, device=squares.device)
        over = int((below + left * squares > self.budget * count * (1 + 1e-6)).nonzero()[0])
        return math.sqrt((self.budget * count - below[over].item()) / (count - over))

    def numbers(self) -> Mapping[str, str]:
        return {"low": f"min(exp(-tau), {1 - self.low:g})", "high": f"max(exp(tau), {1 + self.high:g})"}

    def where(self) -> str:
        return f"tau = the largest with mean of min(z^2, tau^2) <= {self.budget:g} where it harms, z = log r"

    def formula(self) -> str:
        return "clip bounds {low} and {high}, ".format(**self.numbers()) + self.where()


recipe(
    "m2po",
    paper="arXiv:2510.01161",
    summary="clip bounds as wide as a second moment allows",
    variants={"paper": (GroupNorm(), TokenRatio(), Clip(), SecondMomentClip(), TokenMean(), SinglePass())},
    contribution=("second_moment_clip",),
    doc=__doc__,
)
