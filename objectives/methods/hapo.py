"""HAPO: heterogeneous adaptive policy optimisation by token entropy (Liu et al., arXiv:2509.16591).

B  token_group_norm: the z-score over all tokens of a group; over its responses where some |A| reaches 5
C  zone_reweighting: unsure tokens that have moved count more, sure ones that have not count less
D  heterogeneous_clip: sure tokens may fall further, unsure ones rise further; dual clip at 10, mean over all tokens

Adding it brings the dual clip of 10 as well. C and D have the same widths, or are refused.
Left out: A, a temperature per token while sampling. Widths 0.2 and 0.28.
Variant authors: widths 0.2 and 0.2, h without its sign (sure tokens count as unsure), all per micro-batch.
Open: dynamic sampling, which the scripts set without effect, and overlong shaping, of some of them; here neither.
"""

from objectives.parts.clip import Clip
from objectives.parts.dual_clip import DualClip
from objectives.parts.heterogeneous_clip import HeterogeneousClip
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_group_norm import TokenGroupNorm
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.parts.zone_reweighting import ZoneReweighting
from objectives.zoo import recipe

recipe(
    "hapo",
    paper="arXiv:2509.16591",
    summary="advantages, weights and clip bounds by the entropy of tokens",
    variants={
        "paper": (
            TokenGroupNorm(),
            ZoneReweighting(),
            TokenRatio(),
            Clip(),
            HeterogeneousClip(),
            DualClip(cap=10.0),
            TokenMean(),
            SinglePass(),
        ),
        "authors": (
            TokenGroupNorm(),
            ZoneReweighting(high=0.2, scope="microbatch", sign="lost"),
            TokenRatio(),
            Clip(),
            HeterogeneousClip(high=0.2, scope="microbatch", sign="lost"),
            DualClip(cap=10.0),
            TokenMean(scope="microbatch"),
            SinglePass(),
        ),
    },
    contribution=("token_group_norm", "zone_reweighting", "heterogeneous_clip", "dual_clip"),
    doc=__doc__,
)
