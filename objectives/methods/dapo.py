"""DAPO (Yu et al., arXiv:2503.14476, eq. 8-13): clip-higher, dynamic sampling, token-level loss, overlong shaping.

    J = E [ 1 / sum_i |y_i|  sum_i sum_t min( r A, clip(r, 0.8, 1.28) A ) ],
    0 < #correct < G

Open in the paper: over what the token mean runs. Its formula says the prompt (scope=prompt); its code says the
micro-batch (scope=microbatch); the default here is the mini-batch, as in later frameworks.
Deviations: soft_overlong's lengths follow the run's response limit unless given, in the paper's proportion 4096/20480.
The recipe leaves overlong_filter out, as the authors' best runs did. A truncated response earns nothing here; theirs is
graded by its text, as with task.grade_truncated=true.
Variant authors (verl recipe/dapo): dual_clip(cap=10); token mean per micro-batch, weighted by its rows. Its punishment
goes on growing behind the limit, where no response of a run is: 7 batches made to have one differ by 0.5 of the largest
push (median).
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
from objectives.zoo import recipe

BUT_THE_MEAN = (
    *(SoftOverlong(), DynamicSampling()),
    *(GroupNorm(), TokenRatio(), Clip(), ClipHigher(), SinglePass()),
)

recipe(
    "dapo",
    paper="arXiv:2503.14476",
    summary="clip-higher, dynamic sampling, token-level loss, soft overlong punishment; no KL",
    variants={
        "paper": (*BUT_THE_MEAN, TokenMean()),
        "authors": (*BUT_THE_MEAN, TokenMean(scope="microbatch"), DualClip(cap=10.0)),
    },
    contribution=("soft_overlong", "dynamic_sampling", "clip_higher", "token_mean"),
    doc=__doc__,
)
