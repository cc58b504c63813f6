"""IcePop: tokens on which trainer and sampling engine disagree are left out (Ling Team, arXiv:2510.18855).

    J = (1/G) sum_i (1/|y_i|) sum_t M(w_it) min( r A, clip(r, 0.8, 1.2) A ),   w = pi_old / pi_sampler
    M(w) = w where 0.5 <= w <= 5, 0 elsewhere

On GRPO. Dropped tokens stay in the denominator. Left out: the paper's KL to the reference, whose weight is not known
here; kl(beta=...) adds it. INTELLECT-3 (arXiv:2512.16144) takes one ratio, pi / pi_sampler, for both: not this.
"""

from objectives.parts.clip import Clip
from objectives.parts.group_norm import GroupNorm
from objectives.parts.sampler_correction import SamplerCorrection
from objectives.parts.seq_mean import SeqMean
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe

_CORRECTION = SamplerCorrection(cap=5.0, low=0.5, outside="drop")

recipe(
    "icepop",
    paper="arXiv:2510.18855",
    summary="tokens that trainer and sampling engine find differently likely are left out",
    variants={"paper": (GroupNorm(), _CORRECTION, TokenRatio(), Clip(), SeqMean(), SinglePass())},
    contribution=("sampler_correction",),
    doc=__doc__,
)
