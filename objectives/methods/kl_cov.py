"""KL-Cov (Cui et al., The Entropy Mechanism of RL for Reasoning, arXiv:2505.22617).

    Cov_t = (log pi(y_t) - mean log pi) (A_t - mean A)        means over the response tokens of the mini-batch
    l_t = -r A, and + beta |log pi - log pi_old| on the k N tokens of largest Cov; no clip

Deviations: at least one token bears the penalty (as in the code); ties at the boundary all do; no token does whose Cov
is not positive, as where all advantages are equal.
While the policy has not moved the penalty has no gradient. k is 2e-3 for 7B models, 2e-4 for 32B.
Variant authors: means, share and token mean per micro-batch. Their code penalises a token of every micro-batch, also
where no Cov is positive: 11 of 1925 tokens of 40 random batches, by up to the largest push.
"""

from objectives.part import Part
from objectives.parts.cov_penalty import CovPenalty
from objectives.parts.dynamic_sampling import DynamicSampling
from objectives.parts.group_norm import GroupNorm
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.parts.unclipped import Unclipped
from objectives.zoo import recipe

_SHARED: tuple[Part, ...] = (DynamicSampling(), GroupNorm(), TokenRatio(), Unclipped(), SinglePass())

recipe(
    "kl_cov",
    paper="arXiv:2505.22617",
    summary="the tokens that would cost most entropy are held near the old policy; no clip",
    variants={
        "paper": (*_SHARED, CovPenalty(), TokenMean()),
        "authors": (*_SHARED, CovPenalty(scope="microbatch"), TokenMean(scope="microbatch")),
    },
    contribution=("cov_penalty", "unclipped"),
    doc=__doc__,
)
