"""20-Entropy, Beyond the 80/20 Rule (Wang et al., arXiv:2506.01939, eq. 6): DAPO on high-entropy tokens only.

    J = E [ 1 / sum I_it  sum_i sum_t I_it min( r A, clip(r, 0.8, 1.28) A ) ],
    I_it = 1[ H_it >= tau ]

tau keeps the top 20 % of all response tokens of the batch by the current policy's entropy, whatever their advantage.
Open: "(micro-)batch"; here the mini-batch. Deviations: ties at tau are kept, so that the order of rows does not matter.
Variant authors: threshold and token mean per micro-batch, dual_clip(cap=10). Variant v1 (June 2025): denominator=all.
"""

import math
from dataclasses import dataclass

from torch import Tensor

from objectives.batch import TokenBatch, over_scope, scope_reads, statistic
from objectives.kinds import Mask
from objectives.order import largest
from objectives.part import parameter
from objectives.parts.clip import Clip
from objectives.parts.clip_higher import ClipHigher
from objectives.parts.dual_clip import DualClip
from objectives.parts.dynamic_sampling import DynamicSampling
from objectives.parts.group_norm import GroupNorm
from objectives.parts.single_pass import SinglePass
from objectives.parts.soft_overlong import SoftOverlong
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe, register

PAPER = "arXiv:2506.01939"


@register
@dataclass(frozen=True)
class TopEntropy(Mask):
    """Keeps the `fraction` of response tokens with the highest entropy."""

    name = "top_entropy"
    paper = PAPER
    fraction: float = parameter(0.2, "(0, 1]", "share of the response tokens that is kept")
    scope: str = parameter("minibatch", ("minibatch", "microbatch"), "where the share is taken")
    source: str = parameter("current", ("current", "old"), "whose entropy: the current policy's or the rollouts'")
    denominator: str = parameter("kept", ("kept", "all"), "the tokens that the mean counts")

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({statistic("entropy", self.source)}) | scope_reads(self.scope)

    @property
    def shrinks_denominator(self) -> bool:
        return self.denominator == "kept"

    def keeps(self, batch: TokenBatch) -> Tensor:
        return over_scope(batch, self.scope, self._keeps)

    def _keeps(self, batch: TokenBatch) -> Tensor:
        entropy = batch.require(statistic("entropy", self.source), self.name)
        kept = math.ceil(self.fraction * int(batch.mask.sum()) - 1e-9)
        return largest(entropy, batch.mask, max(1, kept))

    def formula(self) -> str:
        return f"H >= the top {self.fraction:.0%} of the {self.scope}'s tokens"


_DAPO = (SoftOverlong(), DynamicSampling(), GroupNorm(), TokenRatio(), Clip(), ClipHigher(), SinglePass())

recipe(
    "entropy20",
    paper=PAPER,
    summary="DAPO restricted to the fifth of the tokens with the highest entropy",
    variants={
        "paper": (*_DAPO, TokenMean(), TopEntropy()),
        "authors": (*_DAPO, TokenMean(scope="microbatch"), TopEntropy(scope="microbatch"), DualClip(cap=10.0)),
        "v1": (*_DAPO, TokenMean(), TopEntropy(denominator="all")),
    },
    contribution=("top_entropy",),
    aliases=("20_entropy",),
    doc=__doc__,
)
