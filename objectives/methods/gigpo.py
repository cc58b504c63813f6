"""GiGPO: GRPO's advantage of the episode, and one of each turn (Feng et al., arXiv:2505.10978, eq. 3-9).

    A_it = (R_i - mean_group) / std_group + omega (G_k - mean_state) / std_state,   omega = 1, gamma = 0.95

States and rewards of turns are those of `turn_advantage`. Variant unscaled: both without the std, the paper's
F_norm = 1. Open: over what the tokens of a turn are averaged; here over all tokens, as in the code.
Variant authors (langfengQ/DrMAS@19c632b verl/trainer/ppo/core_algos.py:128-447, 826-887; its examples/gigpo_trainer):
dual_clip(cap=3), no KL, means over the tokens of each micro-batch, which has turns as rows. Left out, none of it in the
loss: states that are merely similar, statistics per agent, the penalty of invalid actions.
"""

from objectives.parts.clip import Clip
from objectives.parts.dual_clip import DualClip
from objectives.parts.group_center import GroupCenter
from objectives.parts.group_norm import GroupNorm
from objectives.parts.kl import KL
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.parts.turn_advantage import TurnAdvantage
from objectives.zoo import recipe

_SHARED = (TokenRatio(), Clip(), SinglePass())

recipe(
    "gigpo",
    paper="arXiv:2505.10978",
    summary="GRPO, and turns that begin in equal states are compared with each other",
    variants={
        "paper": (*_SHARED, GroupNorm(), TurnAdvantage(), TokenMean(), KL(0.01)),
        "unscaled": (*_SHARED, GroupCenter(), TurnAdvantage(scaled=False), TokenMean(), KL(0.01)),
        "authors": (*_SHARED, GroupNorm(), TurnAdvantage(), DualClip(), TokenMean(scope="microbatch")),
    },
    contribution=("turn_advantage",),
    doc=__doc__,
)
