"""DRO, as verl has it: a policy gradient without a ratio, held near the old policy by a squared log-ratio.

    L = - mean_t [ A_it log pi(y_it) - (beta/2) (log pi/pi_old)^2 ]

beta has no published value, so that it is asked for. The penalty is on responses without advantage as well, and on
tokens that a mask silences. Deviations: the first term is -A exp(log pi - sg[log pi]), of the same gradient.
Open: its base; here GRPO's advantage and the mean over all tokens. Added to another objective, it brings the penalty.
"""

from objectives.part import ASKED
from objectives.parts.drift import Drift
from objectives.parts.group_norm import GroupNorm
from objectives.parts.reinforce import Reinforce
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe

recipe(
    "dro",
    paper="verl 2026",
    summary="plain policy gradient with a squared log-ratio to the old policy as penalty",
    variants={"verl": (GroupNorm(), TokenRatio(), Reinforce(), TokenMean(), Drift(beta=ASKED), SinglePass())},
    contribution=("reinforce", "drift"),
    doc=__doc__,
)
