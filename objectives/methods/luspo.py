"""LUSPO: length-unbiased sequence policy optimisation (arXiv:2602.05261).

    J = (1/G) sum_i |y_i| min( s_i A_i, clip(s_i, 1 - 2e-3, 1 + 2.5e-3) A_i ),   s_i = exp( mean_t log pi/pi_old )

GSPO whose responses weigh as much as they are long: the sum over tokens stands where GSPO has their mean, and its clip
is wider. Adding it brings ratio, widths and sum. The widths are TRL's documentation's; the paper was not read.
Lengths are those of the policy's tokens.
"""

from objectives.parts.clip import Clip
from objectives.parts.clip_higher import ClipHigher
from objectives.parts.group_norm import GroupNorm
from objectives.parts.seq_sum import SeqSum
from objectives.parts.sequence_ratio import SequenceRatio
from objectives.parts.single_pass import SinglePass
from objectives.zoo import recipe

recipe(
    "luspo",
    paper="arXiv:2602.05261",
    summary="GSPO with the sum over tokens instead of their mean, so that length costs no weight",
    variants={"paper": (GroupNorm(), SequenceRatio(), Clip(low=2e-3), ClipHigher(high=2.5e-3), SeqSum(), SinglePass())},
    contribution=("sequence_ratio", "clip", "clip_higher", "seq_sum"),
    essence=("sequence_ratio", "seq_sum"),
    doc=__doc__,
)
