"""OTB: the optimal token baseline (Li et al., arXiv:2602.07078, as their page in verl's documentation has it).

    A_it = R_i - B_t,   B_t = sum_j W_jt R_j / sum_j W_jt   over the group's responses that have a token t
    W_it = sum_{s <= t} ( 1 - 2 pi_old(y_is) + sum_v pi_old(v)^2 )

The baseline of least variance: W is the squared gradient of the log-prob so far by the logits. One response alone has
no advantage behind the end of the others. Responses are compared by the tokens that the loss sees.
Open: what is around the advantage; here a plain policy gradient, the sum over tokens, for which it is derived.
Deviations: rewards are centred first, so that equal ones have an advantage of exactly zero; the code's 1e-8 below the
line is left out, and where the sum of W is 0, as after sure tokens alone, the baseline is the group's mean.
Variant verl: one response alone keeps its reward (its handle_zero_tail); its PPO loss, clip(0.2) and dual_clip(cap=3),
mean over all tokens. Its code adds tools' tokens to W: all of 20 batches that have some
differ, by 0.7 of the largest push (median). Left out: the squares of sampler_correction's weights, which multiply W.
"""

from objectives.parts.clip import Clip
from objectives.parts.dual_clip import DualClip
from objectives.parts.optimal_token_baseline import OptimalTokenBaseline
from objectives.parts.reinforce import Reinforce
from objectives.parts.seq_sum import SeqSum
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe

recipe(
    "otb",
    paper="arXiv:2602.07078",
    summary="a baseline for each token, weighed by how large the gradients up to there are",
    variants={
        "paper": (OptimalTokenBaseline(), TokenRatio(), Reinforce(), SeqSum(), SinglePass()),
        "verl": (OptimalTokenBaseline(alone="reward"), TokenRatio(), Clip(), DualClip(), TokenMean(), SinglePass()),
    },
    contribution=("optimal_token_baseline",),
    doc=__doc__,
)
