"""BAPO: balanced policy optimisation with adaptive clipping (Xi et al., arXiv:2510.18927, eq. 8, Algorithm 1).

    P = sum_{A > 0} pi_old min(r, upper) A,   N = sum_{A < 0} pi_old max(r, lower) |A|
    from [0.6, 1.2] on, while P/(P + N) < 0.4:  upper += 0.05 up to 3.0, then lower += 0.02 up to 0.9

The bounds of PPO's clip are searched anew for every mini-batch, over the tokens of all processes. Eq. 8 prints |P - N|
below the line; the text means the share, which is taken here. A clipped token counts with the bound, so that a higher
lower bound cannot raise the share: once the upper bound is exhausted, the lower one runs to its end.
Deviations: a share that is the target up to 1e-6 has reached it. Bounds that it is added to give way.
Variant authors (their verl): lower bound first, P/N >= 1 without pi_old, other ends, dual_clip(cap=3); bounds and
token mean per micro-batch.
"""

from objectives.part import Part
from objectives.parts.balanced_clip import BalancedClip
from objectives.parts.clip import Clip
from objectives.parts.dual_clip import DualClip
from objectives.parts.group_norm import GroupNorm
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe

_SHARED: tuple[Part, ...] = (GroupNorm(), TokenRatio(), Clip(), SinglePass())
_AUTHORS = BalancedClip(
    target=1.0,
    lower_most=0.8,
    lower_step=0.05,
    upper_most=2.0,
    first="lower",
    measure="ratio",
    weighted=False,
    scope="microbatch",
)

recipe(
    "bapo",
    paper="arXiv:2510.18927",
    summary="clip bounds that widen until good tokens have their share",
    variants={
        "paper": (*_SHARED, BalancedClip(), TokenMean()),
        "authors": (*_SHARED, _AUTHORS, DualClip(cap=3.0), TokenMean(scope="microbatch")),
    },
    contribution=("balanced_clip",),
    doc=__doc__,
)
