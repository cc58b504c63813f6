"""OPD: on-policy distillation (Lu and Thinking Machines Lab, 2025; thinking-machines-lab/tinker-cookbook@9dfcc3a).

    J = sum_i sum_t r_it A_it,   A_it = log pi_teacher(y_it) - log pi_old(y_it)

Each token that the policy samples earns how much likelier a teacher finds it: minus the reverse KL, as a policy
gradient. Rewards are not looked at; `grpo+opd` adds it to GRPO's advantage, as slime's --use-opd does. The teacher is
another model, model.teacher, or one that reads task.teacher_prompt.
Open: what the sum is divided by; here the number of responses. Left out: kl_discount_factor, 0 by default.
Variant verl (docs/algo/opd.md, use_policy_gradient with k1, without task rewards): the current policy's log-prob in A;
PPO's clip, dual_clip(cap=3), mean over all tokens. Its supervised loss is the part teacher_kl.
"""

from objectives.parts.clip import Clip
from objectives.parts.dual_clip import DualClip
from objectives.parts.no_reward import NoReward
from objectives.parts.seq_sum import SeqSum
from objectives.parts.single_pass import SinglePass
from objectives.parts.teacher_advantage import TeacherAdvantage
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.parts.unclipped import Unclipped
from objectives.zoo import recipe

_CURRENT = TeacherAdvantage(source="current")

recipe(
    "opd",
    paper=TeacherAdvantage.paper,
    summary="a teacher's log-prob of each sampled token, less the policy's, as its advantage",
    variants={
        "paper": (NoReward(), TeacherAdvantage(), TokenRatio(), Unclipped(), SeqSum(), SinglePass()),
        "verl": (NoReward(), _CURRENT, TokenRatio(), Clip(), DualClip(), TokenMean(), SinglePass()),
    },
    contribution=("teacher_advantage",),
    aliases=("on_policy_distillation",),
    doc=__doc__,
)
