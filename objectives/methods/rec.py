"""REC: REINFORCE within a band of the ratio (Yao et al., arXiv:2509.24203, as Trinity-RFT has it).

    l = -A log pi  where M = 1, 0 elsewhere
    one_side:  A >= 0 and r <= 1 + high,  or  A <= 0 and r >= 1 - low
    two_side:  1 - low <= r <= 1 + high
    ring:      two_side, or A >= 0 and r <= 1 - far_low, or A <= 0 and r >= 1 + far_high

Neither is an importance weight; with weighted=true the loss is that of the detached ratio times A. Dropped tokens stay
in the denominator. Variants two_side and ring; is: one_side, weighted, whose gradient is PPO's within the clip.
Open: widths (the code's 0.2, 0.2, 0.6, 2); the baseline, here the group's mean. Left out: the k2 term, drift(beta=...).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from objectives.kinds import Bounds, Surrogate
from objectives.lazy import Tensor, torch
from objectives.part import parameter
from objectives.parts.group_center import GroupCenter
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class BandedReinforce(Surrogate):
    """Log-prob times advantage, without the tokens whose ratio has left a band."""

    name = "banded_reinforce"
    paper = "arXiv:2509.24203"
    troubles = ("stale_rollouts",)
    band: str = parameter("one_side", ("one_side", "two_side", "ring"), "which ratios count")
    low: float = parameter(0.2, "(0, 1]", "width of the band below 1")
    high: float = parameter(0.2, "(0, inf)", "width of the band above 1")
    far_low: float = parameter(0.6, "(0, 1]", "ring: how far below 1 a good token counts again")
    far_high: float = parameter(2.0, "(0, inf)", "ring: how far above 1 a bad token counts again")
    weighted: bool = parameter(False, None, "whether a token counts by its ratio")

    def loss(
        self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Mapping[str, Tensor]
    ) -> Tensor:
        kept = torch.where(self.clips(ratio, advantage, bounds), 0.0, ratio.detach() if self.weighted else 1.0)
        return -kept * advantage * (logp - logp.detach()).exp()

    def clips(self, ratio: Tensor, advantage: Tensor, bounds: Bounds) -> Tensor:
        below, above = ratio < 1 - self.low, ratio > 1 + self.high
        if self.band == "one_side":
            return ((advantage > 0) & above) | ((advantage < 0) & below)
        far = ((advantage >= 0) & (ratio <= 1 - self.far_low)) | ((advantage <= 0) & (ratio >= 1 + self.far_high))
        return (below | above) & ~(far if self.band == "ring" else torch.zeros_like(far))

    def formula(self) -> str:
        below, above = f"r < {1 - self.low:g}", f"r > {1 + self.high:g}"
        far_below, far_above = f"r > {1 - self.far_low:g}", f"r < {1 + self.far_high:g}"
        where = {
            "one_side": f"A > 0 and {above} or A < 0 and {below}",
            "two_side": f"{below} or {above}",
            "ring": f"A > 0 and {far_below} and {below} or A > 0 and {above} or A < 0 and {below} or "
            f"A < 0 and {above} and {far_above}",
        }[self.band]
        return f"(0 where {where}, {'sg[r] ' if self.weighted else ''}A log p elsewhere)"


_SHARED = (GroupCenter(), TokenRatio(), TokenMean(), SinglePass())
recipe(
    "rec",
    paper="arXiv:2509.24203",
    summary="policy gradient of the tokens whose ratio is within a band",
    variants={
        "paper": (*_SHARED, BandedReinforce()),
        "two_side": (*_SHARED, BandedReinforce(band="two_side")),
        "ring": (*_SHARED, BandedReinforce(band="ring")),
        "is": (*_SHARED, BandedReinforce(weighted=True)),
    },
    contribution=("banded_reinforce",),
    doc=__doc__,
)
