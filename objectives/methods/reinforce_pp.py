"""REINFORCE++ (Hu et al., arXiv:2501.03262): PPO's surrogate without a critic, normalised over the whole batch.

    A_it = R_i - beta sum_{s >= t} k1_is,  then (A - mean_batch) / std_batch;   clip(0.2), mean per response

reinforce_pp_baseline (eq. 8, appendix A): A_i = (R_i - mean_group) / std_batch, and + beta k2 in the loss, beta = 1e-5
as in OpenRLHF's script. Over what the deviation runs is open there; over rows equal groups keep an advantage of zero.
Variant authors (OpenRLHF): mean over all tokens; beta = 0.01 in the reward, the baseline's deviation over tokens.
Deviations: OpenRLHF bounds each k2 to 10, which takes a push of 1e-5 |log pi/pi_ref| where that is above 4.5; here
kl(clamp=...) does so.
Without group centring easy prompts push and hard ones pull as wholes; dynamic_sampling takes that away again.
Added to an objective with a kl penalty, it takes the divergence off the reward as well; -kl leaves that penalty out.
"""

from objectives.part import Part
from objectives.parts.clip import Clip
from objectives.parts.global_norm import CenterThenGlobalNorm, GlobalNorm
from objectives.parts.kl import KL
from objectives.parts.kl_reward import KLReward
from objectives.parts.seq_mean import SeqMean
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe

_SHARED: tuple[Part, ...] = (TokenRatio(), Clip(), SinglePass())
_DIVERGENCE = KL(beta=1e-5, estimator="k2")

recipe(
    "reinforce_pp",
    paper="arXiv:2501.03262",
    summary="no group baseline: reward less the KL to come, normalised over the batch",
    variants={
        "paper": (*_SHARED, KLReward(beta=0.001, to_go=True), GlobalNorm(), SeqMean()),
        "authors": (*_SHARED, KLReward(beta=0.01, to_go=True), GlobalNorm(), TokenMean()),
    },
    contribution=("kl_reward", "global_norm"),
    essence=("global_norm",),
    doc=__doc__,
)

recipe(
    "reinforce_pp_baseline",
    paper="arXiv:2501.03262",
    summary="group means taken off, then normalised over the batch; KL to the reference",
    variants={
        "paper": (*_SHARED, CenterThenGlobalNorm(), SeqMean(), _DIVERGENCE),
        "authors": (*_SHARED, CenterThenGlobalNorm(over="tokens"), TokenMean(), _DIVERGENCE),
    },
    contribution=("center_then_global_norm",),
    doc=__doc__,
)
