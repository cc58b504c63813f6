"""UP: unbounded positive, asymmetric optimisation (Fan et al., arXiv:2607.06987, eq. 14-15).

    A > 0:   l = -A pi / sg[pi]                            the policy gradient: no anchor, no clip
    A <= 0:  l = -min( r A, clip(r, 1 - low, ...) A )      PPO's, as it stands

Rare tokens of good responses may grow as far as they like; bad ones are held as ever. An upper bound of the ratio has
nothing to act on. Open: its base; here UP-DAPO's token mean, without KL and without DAPO's other parts.
Variant verl (its pull request 7022): dual_clip(cap=3).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from objectives.batch import Prepared
from objectives.kinds import Bounds, Surrogate
from objectives.lazy import Tensor, torch
from objectives.part import parameter
from objectives.parts.dual_clip import DualClip
from objectives.parts.group_norm import GroupNorm
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class UnboundedPositive(Surrogate):
    """Policy gradient where the advantage is positive, PPO's clip elsewhere."""

    name = "unbounded_positive"
    paper = "arXiv:2607.06987"
    troubles = ("exploration",)
    reads_bounds = frozenset({"low", "cap"})
    low: float = parameter(0.2, "[0, 1]", "where A < 0 the ratio is clipped to 1 - low below")

    def bounds(self, batch: Prepared) -> Bounds:
        return Bounds(low=self.low)

    def loss(
        self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Mapping[str, Tensor]
    ) -> Tensor:
        held = torch.where(ratio < 1 - bounds.low, ratio.new_ones(()) - bounds.low, ratio.new_ones(()) * bounds.cap)
        clipped = torch.where(self.clips(ratio, advantage, bounds), held, ratio)
        return -advantage * torch.where(advantage > 0, (logp - logp.detach()).exp(), clipped)

    def clips(self, ratio: Tensor, advantage: Tensor, bounds: Bounds) -> Tensor:
        return (advantage < 0) & ((ratio < 1 - bounds.low) | (ratio > bounds.cap))

    def numbers(self) -> Mapping[str, str]:
        return {"low": f"{1 - self.low:g}"}

    def formula(self) -> str:
        return self.equation(self.numbers())

    def equation(self, numbers: Mapping[str, str]) -> str:
        inner = f"max(r, {numbers['low']})"
        inner = f"min({inner}, {numbers['cap']})" if "cap" in numbers else inner
        return f"(A log p where A > 0, {inner} A elsewhere)"


_SHARED = (GroupNorm(), TokenRatio(), UnboundedPositive(), TokenMean(), SinglePass())

recipe(
    "up",
    paper="arXiv:2607.06987",
    summary="good tokens unbounded, bad ones clipped",
    variants={"paper": _SHARED, "verl": (*_SHARED, DualClip(cap=3.0))},
    contribution=("unbounded_positive",),
    doc=__doc__,
)
