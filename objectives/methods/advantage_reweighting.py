"""Advantage Reweighting (Yang et al., Do Not Let Low-Probability Tokens Over-Dominate, arXiv:2505.12929, eq. 4).

    A'_it = ( alpha pi_old(y_it) + 1 - alpha ) A_i

Tokens of both signs are weighed, after the group normalisation, without renormalising. alpha is 0.3 for Knights and
Knaves, 0.1 for maths. The paper writes pi_theta; its code, and this part, take the old policy's probability.
Open: over what the token mean runs; here the mini-batch.
Variant authors (their verl): alpha = 0.2; dual_clip(cap=10); the KL's log-ratio is clamped; token mean per micro-batch,
weighted by its responses. Their code weighs micro-batches equally: the same where their sizes are, as in their scripts;
a third of the largest push away where they are not (median of 23 random batches).
"""

from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.kinds import Weight
from objectives.lazy import Tensor
from objectives.part import Part, parameter
from objectives.parts.clip import Clip
from objectives.parts.clip_higher import ClipHigher
from objectives.parts.dual_clip import DualClip
from objectives.parts.group_norm import GroupNorm
from objectives.parts.kl import KL
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe, register

PAPER = "arXiv:2505.12929"


@register
@dataclass(frozen=True)
class AdvantageReweighting(Weight):
    """Weighs each token by its old probability: alpha p + 1 - alpha."""

    name = "advantage_reweighting"
    paper = PAPER
    troubles = ("spurious_tokens",)
    reads = frozenset({"logp_old"})
    alpha: float = parameter(0.3, "[0, 1]", "share of the weight that follows the probability")

    def weight(self, batch: TokenBatch) -> Tensor:
        return self.alpha * batch.require("logp_old", self.name).exp() + (1 - self.alpha)

    def formula(self) -> str:
        return f"A *= {self.alpha:g} p_old + {1 - self.alpha:g}"


_SHARED: tuple[Part, ...] = (GroupNorm(), TokenRatio(), Clip(), ClipHigher(high=0.24))
PAPER_BASE = (*_SHARED, TokenMean(), KL(beta=0.001))
AUTHORS_BASE = (*_SHARED, TokenMean(scope="microbatch"), KL(beta=0.001, clamp=5.0), DualClip(cap=10.0))

recipe(
    "advantage_reweighting",
    paper=PAPER,
    summary="tokens weighed by their probability, so that improbable ones do not dominate",
    variants={
        "paper": (*PAPER_BASE, SinglePass(), AdvantageReweighting()),
        "authors": (*AUTHORS_BASE, SinglePass(), AdvantageReweighting(alpha=0.2)),
    },
    contribution=("advantage_reweighting",),
    aliases=("ar",),
    doc=__doc__,
)
