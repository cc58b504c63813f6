"""MAGIC, the recipe of Skywork-OR1 (He et al., arXiv:2505.22312): GRPO with an entropy that is held up.

    J = 1 / sum_i |y_i|  sum_i sum_t { min[ r A, clip(r, 0.8, 1.2) A ] + alpha_k H_it },   A z-scored per group
    alpha_k = c_k while the entropy e_k < 0.2, 0 otherwise;   c_0 = 0, c moves by 1e-4 a step, up while e_k < 0.2

No KL, one update per rollout, groups of equal rewards left out. The numbers are those of all six of their scripts, as
is the largest c, 0.005.
Deviations: the scripts do not sample others for the groups left out; at the target itself the bonus is off, as in the
code (the paper's inequality may include it).
Left out: stages of growing length.
Variant authors (their verl): e is the mean of -log pi_old, the last step's e switches the bonus on, and both means are
those of each micro-batch, weighted by its rows.
"""

from objectives.parts.adaptive_entropy import AdaptiveEntropy
from objectives.parts.clip import Clip
from objectives.parts.dynamic_sampling import DynamicSampling
from objectives.parts.group_norm import GroupNorm
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe

_SHARED = (DynamicSampling(), GroupNorm(), TokenRatio(), Clip(), SinglePass())

recipe(
    "magic",
    paper="arXiv:2505.22312",
    summary="GRPO with an entropy bonus that is on while the entropy is below its target",
    variants={
        "paper": (*_SHARED, TokenMean(), AdaptiveEntropy()),
        "authors": (*_SHARED, TokenMean(scope="microbatch"), AdaptiveEntropy(measured="surprisal", delayed=True)),
    },
    contribution=("adaptive_entropy",),
    aliases=("skywork_or1",),
    doc=__doc__,
)
