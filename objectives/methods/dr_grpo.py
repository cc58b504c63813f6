"""Dr. GRPO (Liu et al., Understanding R1-Zero-Like Training, arXiv:2503.20783): GRPO without its two divisions.

    J = (1/G) sum_i (1/L_max) sum_t min( r A, clip(r, 0.8, 1.2) A ),   A_i = R_i - mean_group

Neither the response's length nor the group's standard deviation divides; L_max is the response limit, as in the code.
No KL. Against token_mean the gradient is smaller by about the mean length over L_max.
"""

from objectives.parts.clip import Clip
from objectives.parts.constant_length import ConstantLength
from objectives.parts.group_center import GroupCenter
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe

recipe(
    "dr_grpo",
    paper="arXiv:2503.20783",
    summary="GRPO without the standard deviation and the response's length in the denominators",
    variants={"paper": (GroupCenter(), TokenRatio(), Clip(), ConstantLength(), SinglePass())},
    contribution=("group_center", "constant_length"),
    doc=__doc__,
)
