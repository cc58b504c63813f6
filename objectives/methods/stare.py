"""STARE (arXiv:2606.19236): surprisal-quantile weights, gated by a target entropy.

    L+ = the ceil(P n) most surprising tokens among those with A > 0, weight W
    L- = likewise among those with A < 0, weight M
    both on while the step's mean old entropy is below H_target (strict)

This is variant O1 of the paper (M = 1); attenuate=0.9 is its C2.
Adaptive mode: W <- clip(W + 0.01 sgn(H_target - H), 1, 1.5), M <- clip(M - 0.01 sgn(H_target - H), 0.5, 1); a weight
that starts at 1 stays off.
Deviations: tokens whose weighted advantage is 0 are in neither set; ties at the boundary are all taken, so that the
order of rows has no influence; equal prefixes tie, so that small batches take more than the share. Theirs takes any of
the tied: with log-probs in quarters 5 of 40 random batches differ, by 3 % of the largest push (median), otherwise none.
A truncated response earns nothing; the authors grade its text (here task.grade_truncated=true).
Variant authors (their verl): surprisal of the current policy within each micro-batch; dual_clip(cap=10); token mean per
micro-batch. The paper's set is the whole batch; the old policy's surprisal gives it without another forward.
"""

from objectives.part import Part
from objectives.parts.clip import Clip
from objectives.parts.clip_higher import ClipHigher
from objectives.parts.dual_clip import DualClip
from objectives.parts.dynamic_sampling import DynamicSampling
from objectives.parts.group_norm import GroupNorm
from objectives.parts.single_pass import SinglePass
from objectives.parts.surprisal_reweighting import SurprisalReweighting
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe

_SHARED: tuple[Part, ...] = (DynamicSampling(), GroupNorm(), TokenRatio(), Clip(), ClipHigher(), SinglePass())

recipe(
    "stare",
    paper="arXiv:2606.19236",
    summary="the most surprising tokens amplified while the entropy is below its target",
    variants={
        "paper": (*_SHARED, TokenMean(), SurprisalReweighting()),
        "c2": (*_SHARED, TokenMean(), SurprisalReweighting(attenuate=0.9)),
        "authors": (
            *_SHARED,
            TokenMean(scope="microbatch"),
            SurprisalReweighting(scope="microbatch", source="current"),
            DualClip(cap=10.0),
        ),
    },
    contribution=("surprisal_reweighting",),
    doc=__doc__,
)
