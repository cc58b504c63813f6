"""20-Entropy, Beyond the 80/20 Rule (Wang et al., arXiv:2506.01939, eq. 6): DAPO on high-entropy tokens only.

    J = E [ 1 / sum I_it  sum_i sum_t I_it min( r A, clip(r, 0.8, 1.28) A ) ],
    I_it = 1[ H_it >= tau ]

tau keeps the top 20 % of all response tokens of the batch by the current policy's entropy, whatever their advantage.
Open: "(micro-)batch"; here the mini-batch.
Deviations: ties at tau are kept, so that the order of rows does not matter; equal prefixes tie, so that small batches
keep more than the share. The code takes any of the tied: with entropies in eighths 20 of 40 random batches differ, by
0.6 of the largest push (median); without ties none.
Variant authors: threshold and token mean per micro-batch, dual_clip(cap=10); behind the limit as dapo's.
Variant v1 (June 2025): denominator=all.
Until 29 November 2025 the authors' public script set the share under `model`, where the actor did not read it, and
trained plain DAPO (fixed by 137d8d1 of Shenzhi-Wang/Beyond-the-80-20-Rule-RLVR). Runs of others before may be DAPO.
"""

from objectives.parts.clip import Clip
from objectives.parts.clip_higher import ClipHigher
from objectives.parts.dual_clip import DualClip
from objectives.parts.dynamic_sampling import DynamicSampling
from objectives.parts.group_norm import GroupNorm
from objectives.parts.single_pass import SinglePass
from objectives.parts.soft_overlong import SoftOverlong
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.parts.top_entropy import TopEntropy
from objectives.zoo import recipe

_DAPO = (SoftOverlong(), DynamicSampling(), GroupNorm(), TokenRatio(), Clip(), ClipHigher(), SinglePass())

recipe(
    "entropy20",
    paper="arXiv:2506.01939",
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
