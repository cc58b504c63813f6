"""DPPO: a trust region of divergence instead of ratio (Qi et al., arXiv:2602.04879).

    J = E sum_t M_t r_t A_t,   r = pi/pi_sampler,   A = R - mean_group
    M_t = 0 where D > delta and (A > 0 and r > 1, or A < 0 and r < 1)
    D: |p_sampler - p| (tv) or that of two-way distributions (kl), p the sampled token's probability

A rare token may multiply its probability, which PPO's clip forbids; a probable one may not fall by more than delta.
Dropped tokens stay in the denominator. delta is 0.15 for tv, 0.05 for kl; the ratio has no cap in the paper's stability
study, one of 5 in its larger runs, 10 in its code. Open: over what the sum is averaged; here the mean over all tokens.
Left out: the divergence over the engine's 20 likeliest tokens, which needs their log-probs.
Deviations: 1e-8 in the logarithms of kl's complements (the code's); the loss is -w A exp(log pi - sg[log pi]);
p_sampler is p over the clamped ratio.
Variant authors: the code's cap, 10; token mean per micro-batch, weighted by its rows, as its actor has it.
Variant trl: cap 20, group_norm(eps=1e-4), as its default scales by the group's deviation.
verl's is dppo(cap=20)+token_ratio+constant_length: to the trainer's old policy.
Variant prime_rl: delta 0.2, and 0.001 (log p/p_sampler)^2; side=both drops whatever moved (its ipo).
"""

from objectives.part import Part
from objectives.parts.divergence_clip import DivergenceClip
from objectives.parts.drift import Drift
from objectives.parts.group_center import GroupCenter
from objectives.parts.group_norm import GroupNorm
from objectives.parts.sampler_ratio import SamplerRatio
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.zoo import recipe

_SHARED: tuple[Part, ...] = (SamplerRatio(), SinglePass())
PRIME_RL: tuple[Part, ...] = (
    *_SHARED,
    GroupCenter(),
    TokenMean(),
    DivergenceClip(delta=0.2),
    Drift(beta=0.001, estimator="square", to="sampler"),
)

recipe(
    "dppo",
    paper="arXiv:2602.04879",
    summary="tokens are dropped by how far their probability moved, not by their ratio",
    variants={
        "paper": (*_SHARED, GroupCenter(), TokenMean(), DivergenceClip()),
        "authors": (*_SHARED, GroupCenter(), TokenMean(scope="microbatch"), DivergenceClip(cap=10.0)),
        "trl": (*_SHARED, GroupNorm(eps=1e-4), TokenMean(), DivergenceClip(cap=20.0)),
        "prime_rl": PRIME_RL,
    },
    contribution=("group_center", "sampler_ratio", "divergence_clip"),
    essence=("sampler_ratio", "divergence_clip"),
    doc=__doc__,
)
