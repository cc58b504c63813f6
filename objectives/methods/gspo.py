"""GSPO: group sequence policy optimisation (Zheng et al., arXiv:2507.18071, eq. 5-7, 13-14).

    J = (1/G) sum_i min( s_i A_i, clip(s_i, 1 - 3e-4, 1 + 4e-4) A_i ),   s_i = exp( mean_t log pi/pi_old )

Adding `gspo` to another objective brings the ratio with its tiny clip widths and its mean over responses. The gradient
is that of the token form (eq. 13), so that weights per token work too; with one advantage per response it is the same.
An upper bound that is added to it (clip_higher, or dapo with its 0.28) takes the place of its own.
Means are over the tokens that the policy chose, not over what an environment wrote.
"""

from objectives.parts.clip import Clip
from objectives.parts.clip_higher import ClipHigher
from objectives.parts.group_norm import GroupNorm
from objectives.parts.seq_mean import SeqMean
from objectives.parts.sequence_ratio import SequenceRatio
from objectives.parts.single_pass import SinglePass
from objectives.zoo import recipe

recipe(
    "gspo",
    paper="arXiv:2507.18071",
    summary="one importance ratio for a whole response, clipped within a few ten-thousandths",
    variants={"paper": (GroupNorm(), SequenceRatio(), Clip(low=3e-4), ClipHigher(high=4e-4), SeqMean(), SinglePass())},
    contribution=("sequence_ratio", "clip", "clip_higher", "seq_mean"),
    essence=("sequence_ratio",),
    doc=__doc__,
)
