"""Clip-Cov (Cui et al., The Entropy Mechanism of RL for Reasoning, arXiv:2505.22617).

    Cov_t = (log pi(y_t) - mean log pi) (A_t - mean A)        means over the response tokens of the mini-batch
    rho N tokens, drawn among those with low < Cov < high that the clip spares, have no gradient; the denominator stays

Deviations: at least one token is silenced where any may be; tokens are drawn by a number made of the step, their group,
row and position, so that neither the order of groups nor processes and cuts have a say.
Open: PPO's clip beside it, 0.2 here.
Variant authors: means, share and token mean per micro-batch, ratios clipped to [0, 2]. Their draw is
another one: 63 of 1925 tokens of 40 random batches are silenced there or here alone; with fraction=1 none.
"""

from objectives.part import Part
from objectives.parts.clip import Clip
from objectives.parts.clip_cov import ClipCov
from objectives.parts.dynamic_sampling import DynamicSampling
from objectives.parts.group_norm import GroupNorm
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe

_SHARED: tuple[Part, ...] = (DynamicSampling(), GroupNorm(), TokenRatio(), SinglePass())

recipe(
    "clip_cov",
    paper="arXiv:2505.22617",
    summary="a few tokens whose log-prob and advantage vary together are silenced",
    variants={
        "paper": (*_SHARED, Clip(), ClipCov(), TokenMean()),
        "authors": (*_SHARED, Clip(low=1.0), ClipCov(scope="microbatch"), TokenMean(scope="microbatch")),
    },
    contribution=("clip_cov",),
    doc=__doc__,
)
