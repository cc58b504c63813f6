"""GRPO: group-relative policy optimisation (Shao et al., DeepSeekMath, arXiv:2402.03300, eq. 3-4).

    J = E_q (1/G) sum_i (1/|y_i|) sum_t
            { min[ r A, clip(r, 1 - eps, 1 + eps) A ] - beta KL_it }
    A_i = (R_i - mean_group) / std_group,
    KL_it = pi_ref/pi - log(pi_ref/pi) - 1

Open in the paper, and the reading taken: eps = 0.2 (not reported); std with ddof 1 and 1e-6 added (verl; the printed
advantages of later papers confirm ddof 1). Deviations: a reward equal to its group's mean up to rounding, and so every
reward of an equal-reward group, has an advantage of exactly zero.
"""

from objectives.part import Part
from objectives.parts.clip import Clip
from objectives.parts.group_norm import GroupNorm
from objectives.parts.kl import KL
from objectives.parts.seq_mean import SeqMean
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe

GRPO: tuple[Part, ...] = (GroupNorm(), TokenRatio(), Clip(), SeqMean(), KL(), SinglePass())

recipe(
    "grpo",
    paper="arXiv:2402.03300",
    summary="group-relative advantages in PPO's surrogate, mean per response, KL to the reference",
    variants={"paper": GRPO},
    contribution=("group_norm",),
    doc=__doc__,
)
