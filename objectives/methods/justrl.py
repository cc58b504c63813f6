"""JustRL (He et al., arXiv:2512.16649): GRPO with binary rewards and clip-higher, and nothing else.

    J = token mean of min( r A, clip(r, 0.8, 1.28) A ),  A z-scored per group

The paper gives no formula; this is what its run script does: DAPO without dynamic sampling and overlong shaping.
Open: "standard GRPO" would be the mean per response; the script, and later papers on it, take the token mean.
Deviations: a truncated response earns nothing; the authors grade its text (here task.grade_truncated=true).
Variant authors (vendored verl): dual_clip(cap=10); token mean per micro-batch, weighted by its rows.
"""

from objectives.part import Part
from objectives.parts.clip import Clip
from objectives.parts.clip_higher import ClipHigher
from objectives.parts.dual_clip import DualClip
from objectives.parts.group_norm import GroupNorm
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe

JUSTRL: tuple[Part, ...] = (GroupNorm(), TokenRatio(), Clip(), ClipHigher(), TokenMean(), SinglePass())
JUSTRL_AUTHORS: tuple[Part, ...] = (*JUSTRL[:4], TokenMean(scope="microbatch"), SinglePass(), DualClip(cap=10.0))

recipe(
    "justrl",
    paper="arXiv:2512.16649",
    summary="binary rewards, clip-higher, token-level loss; no KL, no shaping, no filtering",
    variants={"paper": JUSTRL, "authors": JUSTRL_AUTHORS},
    contribution=("clip_higher", "token_mean"),
    doc=__doc__,
)
