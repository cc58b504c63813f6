"""DCPO: dynamic clipping by the old probability (Yang et al., arXiv:2509.02333).

    1/2 + 1/2 sqrt( max(1 - 4 low / q, 0) )  <=  r  <=  min( 1/2 + 1/2 sqrt(1 + 4 high / q), 10 ),   q = pi_old(y_it)

Rare tokens may multiply their probability. Mean per response, brought along; bounds that it is added to give way.
Left out: the paper's smoothing of advantages over the steps of a prompt (SAS), for which no history is kept; here the
group's z-score, theirs on the first visit; on the second 0.2 of the largest one away (median of 40 random batches).
Deviations: the paper's mean (OTM) sums the responses of a prompt; here it is over them, a factor of G.
Variant authors: widths 0.2 and 0.28; their OTM is the mean over the tokens of each micro-batch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from objectives.batch import TokenBatch
from objectives.kinds import Bounds, Modifier
from objectives.lazy import Tensor
from objectives.part import Part, parameter
from objectives.parts.clip import Clip
from objectives.parts.dual_clip import DualClip
from objectives.parts.group_norm import GroupNorm
from objectives.parts.seq_mean import SeqMean
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class DynamicClip(Modifier):
    """Clips the ratio of a rare token later than that of a probable one."""

    name = "dynamic_clip"
    paper = "arXiv:2509.02333"
    troubles = ("exploration",)
    sets = frozenset({"low", "high"})
    reads_once_moved = frozenset({"logp_old"})
    low: float = parameter(0.16, "[0, inf)", "width below")
    high: float = parameter(0.2, "[0, inf)", "width above")
    most: float = parameter(10.0, "[1, inf)", "largest upper bound of the ratio")

    def modify(self, bounds: Bounds, batch: TokenBatch) -> Bounds:
        if batch.on_policy and batch.logp_old is None:  # all ratios are 1, within any bounds
            return replace(bounds, low=self.low, high=self.high)
        rarity = (-batch.require("logp_old", self.name)).exp()
        return replace(
            bounds, low=1 - _bound(-self.low * rarity), high=_bound(self.high * rarity).clamp(max=self.most) - 1
        )

    def numbers(self) -> Mapping[str, str]:
        lower = f"(1 + sqrt(max(1 - {4 * self.low:g}/q, 0)))/2"
        return {"low": lower, "high": f"min((1 + sqrt(1 + {4 * self.high:g}/q))/2, {self.most:g})"}

    def where(self) -> str:
        return "q = p_old"

    def formula(self) -> str:
        return "clip bounds {low} and {high}, ".format(**self.numbers()) + self.where()


def _bound(change: Tensor) -> Tensor:
    return 0.5 + 0.5 * (1 + 4 * change).clamp(min=0).sqrt()


_SHARED: tuple[Part, ...] = (GroupNorm(), TokenRatio(), Clip(), DualClip(cap=10.0), SinglePass())

recipe(
    "dcpo",
    paper="arXiv:2509.02333",
    summary="clip bounds that widen for rare tokens",
    variants={
        "paper": (*_SHARED, DynamicClip(), SeqMean()),
        "authors": (*_SHARED, DynamicClip(low=0.2, high=0.28), TokenMean(scope="microbatch")),
    },
    contribution=("dynamic_clip", "dual_clip", "seq_mean"),
    essence=("dynamic_clip",),
    doc=__doc__,
)
