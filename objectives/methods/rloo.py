"""RLOO: REINFORCE leave-one-out (Ahmadian et al., Back to Basics, arXiv:2402.14740).

    J = (1/N) sum_i sum_t r_it A_i,   A_i = R_i - mean_{j != i} R_j,   R_i = reward_i - beta log pi_old(y_i)/pi_ref(y_i)

The whole response is one action: its tokens' terms are summed, not averaged. beta is 0.03 for TL;DR, 0.10 for HH.
Deviations: the paper updates once per rollout, where r = 1; here r keeps later updates right, without a clip.
Variant trl (RLOOTrainer): one ratio for the response, the product of its tokens', clipped at 0.2; beta = 0.05. Its loss
is the same in every gradient and larger in value by the response's length. verl's rloo is the advantage alone, which
`leave_one_out` adds to any other objective. Added to one with a kl penalty, -kl leaves that penalty out.
"""

from objectives.parts.clip import Clip
from objectives.parts.kl_reward import KLReward
from objectives.parts.leave_one_out import LeaveOneOut
from objectives.parts.seq_sum import SeqSum
from objectives.parts.sequence_ratio import SequenceRatio
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_ratio import TokenRatio
from objectives.parts.unclipped import Unclipped
from objectives.zoo import recipe

_SHARED = (LeaveOneOut(), SeqSum(), SinglePass())

recipe(
    "rloo",
    paper="arXiv:2402.14740",
    summary="the other responses' mean is the baseline; whole responses, divergence in the reward",
    variants={
        "paper": (*_SHARED, KLReward(beta=0.03), TokenRatio(), Unclipped()),
        "trl": (*_SHARED, KLReward(beta=0.05), SequenceRatio(norm="sum"), Clip()),
    },
    contribution=("kl_reward", "leave_one_out", "seq_sum"),
    essence=("leave_one_out",),
    doc=__doc__,
)
