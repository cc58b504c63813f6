"""Which tokens train, and when."""

import math
from collections.abc import Sequence

import numpy as np

from tests.objectives.batches import Array, Case, Flags
from tests.objectives.references.grpo import DAPO, DAPO_CODE, grpo
from tests.objectives.references.parts import (
    clip,
    clipped,
    dynamic_sampling,
    entropy_bonus,
    kl,
    micro_batch_mean,
    quantile,
    reinforce,
    reweighting,
    seq_mean,
    token_mean,
    unclipped,
)
from tests.objectives.references.stages import Kept, Reference, Share, Term, pools, stage
from tests.objectives.references.token_weights import AR, AR_CODE, surprisal_weights

REFERENCES: dict[str, Reference] = {}

# 20-Entropy (arXiv:2506.01939, eq. 6): DAPO on the fifth of all tokens with the highest entropy.
#
# The authors' code: threshold and mean within each micro-batch, dual clip at 10. v1: the denominator counts all tokens.


@stage
def top_entropy(
    case: Case, advantage: Array, *, fraction=0.2, scope="batch", source="current", leaves_denominator=True
) -> Kept:
    """H >= tau, which keeps the top ceil(fraction n) of the tokens, ties included."""
    entropy = case.entropy_old if source == "old" else case.current_entropy
    kept = np.zeros(case.mask.shape, dtype=bool)
    for pool in pools(case, case.mask, scope):
        count = max(1, int(pool.sum() * fraction + 0.9999))
        kept |= pool & (entropy >= sorted(entropy[pool], reverse=True)[count - 1])
    return kept, leaves_denominator


REFERENCES |= {
    "entropy20": clipped(**DAPO, masks=[top_entropy()]),
    "entropy20(variant=authors)": clipped(**DAPO, **DAPO_CODE, masks=[top_entropy(scope="micro")]),
    "entropy20(variant=v1)": clipped(**DAPO, masks=[top_entropy(leaves_denominator=False)]),
    "grpo+entropy20": grpo(masks=[top_entropy()]),
    "entropy20(source=old,fraction=0.5)": clipped(**DAPO, masks=[top_entropy(0.5, source="old")]),
}


# Lopti (arXiv:2505.12929, Algorithm 1): the tokens with p_old < eta in a pass of their own, then the others.


@stage
def lopti(case: Case, *, eta=0.5, portion: str | None = None, high_first=False) -> Sequence[Flags]:
    """p_old < eta, or below a quantile of p_old; then the others."""
    probability = np.exp(case.logp_old)
    boundary = eta
    if portion is not None and case.mask.any():
        boundary = quantile(probability[case.mask], portion)
    low = case.mask & (probability < boundary)
    high = case.mask & ~low
    return [high, low] if high_first else [low, high]


REFERENCES |= {
    "lopti": clipped(**AR, passes=lopti()),
    "lopti(variant=authors)": clipped(**AR_CODE, passes=lopti(0.4)),
    "lopti(order=high_first)": clipped(**AR, passes=lopti(high_first=True)),
    "lopti(portion=0.3)": clipped(**AR, passes=lopti(portion="0.3")),
    "lopti(eta=1)+entropy_bonus": clipped(
        **{**AR, "penalties": [*AR["penalties"], entropy_bonus()]}, passes=lopti(1.0)
    ),
    "advantage_reweighting(alpha=1)+lopti": clipped(**AR, weights=[reweighting(1.0)], passes=lopti()),
    "dapo+lopti": clipped(**DAPO, passes=lopti()),
}


# STAPO (arXiv:2602.15620, section 4): JustRL without tokens that are rare, rewarded and of low entropy among those.


@stage
def s2t(
    case: Case, advantage: Array, *, tau=0.002, q="0.75", scope="batch", source="current", leaves_denominator=True
) -> Kept:
    """Not (A > 0 and p < tau and H < the q-quantile of H over the tokens with the first two)."""
    logp = case.logp_old if source == "old" else case.current
    entropy = case.entropy_old if source == "old" else case.current_entropy
    kept = case.mask.copy()
    for pool in pools(case, case.mask & (advantage > 0) & (logp < math.log(tau)), scope):
        kept &= ~(pool & (entropy < quantile(entropy[pool], q)))
    return kept, leaves_denominator


REFERENCES |= {
    "stapo": clipped(masks=[s2t()]),
    "stapo(variant=v1)": clipped(masks=[s2t(q="0.8")]),
    "stapo(variant=justrl)": clipped(**DAPO_CODE, masks=[s2t()]),
    "stapo(source=old,tau_p=0.1)": clipped(masks=[s2t(0.1, source="old")]),
    "stapo(denominator=all,q=0.5)": clipped(masks=[s2t(q="0.5", leaves_denominator=False)]),
    "stapo(scope=microbatch,q=1)": clipped(masks=[s2t(q="1", scope="micro")]),
    "grpo+stapo(tau_p=1)": grpo(masks=[s2t(tau=1.0)]),
    "stapo+stare(target_entropy=none)": clipped(masks=[s2t()], weights=[surprisal_weights(target=None)]),
    "entropy20(variant=authors)+stapo+ar+lopti+kl": clipped(
        **DAPO,
        **DAPO_CODE,
        masks=[top_entropy(scope="micro"), s2t()],
        weights=[reweighting(0.3)],
        passes=lopti(),
        penalties=[kl()],
    ),
}


# Clip-Cov (arXiv:2505.22617): tokens drawn among those with low < Cov < high have no gradient; clip at 0.2.
#
# Cov_t = (log pi(y_t) - mean log pi) (A_t - mean A). Drawn are the smallest lots of those that the clip spares. The
# authors' code: within each micro-batch, ratios clipped to [0, 2], mean over the tokens of each.


def covariance(case: Case, advantage: Array, pool: Flags) -> Array:
    """[N, T] Cov with the means over a pool; exactly 0 where either is the same everywhere.

    Rounded to float32: what is tied in exact arithmetic, as both of two tokens are, is tied.
    """
    logp, others = case.current[pool], advantage[pool]
    if (logp == logp[0]).all() or (others == others[0]).all():
        return np.zeros(pool.shape)
    cov = (case.current - logp.sum() / len(logp)) * (advantage - others.sum() / len(others))
    return cov.astype(np.float32)


@stage
def clip_cov(case: Case, advantage: Array, *, fraction=2e-4, low=1.0, high=5.0, scope="batch", width=0.2) -> Kept:
    """Not the floor(rho N) tokens, at least one, of the smallest lots in the band."""
    kept, ratio = case.mask.copy(), np.exp(np.clip(case.current - case.logp_old, -20, 20))
    clipped_off = np.where(advantage > 0, ratio > 1 + width, (ratio < 1 - width) & (advantage < 0))
    for pool in pools(case, case.mask, scope):
        cov = covariance(case, advantage, pool)
        band = pool & (cov > low) & (cov < high) & ~clipped_off
        tokens = sorted(zip(*band.nonzero(), strict=True), key=lambda token: case.lot[token])
        for token in tokens[: max(1, int(fraction * pool.sum() + 1e-9))]:
            kept[token] = False
    return kept, False


REFERENCES |= {
    "clip_cov": clipped(selects=[dynamic_sampling], surrogate=clip(), masks=[clip_cov()]),
    "clip_cov(variant=authors)": clipped(
        selects=[dynamic_sampling],
        surrogate=clip(1.0, 1.0),
        masks=[clip_cov(scope="micro", width=1.0)],
        share=micro_batch_mean,
    ),
    "clip_cov(fraction=0.2,low=0.1,high=1)": clipped(
        selects=[dynamic_sampling], surrogate=clip(0.2, 0.2), masks=[clip_cov(0.2, 0.1, 1.0)]
    ),
}


# KL-Cov (arXiv:2505.22617): no clip; + beta |log pi - log pi_old| on the k N tokens of the largest covariance.
#
# The authors' code: means and share within each micro-batch.


@stage
def cov_penalty(case: Case, advantage: Array, share: Share, *, fraction=2e-3, beta=1.0, scope="batch") -> Term:
    """Beta |z| on the floor(k N) tokens, at least one, of the largest covariance, if that is positive."""
    chosen = np.zeros(case.mask.shape, dtype=bool)
    for pool in pools(case, case.mask, scope):
        cov = covariance(case, advantage, pool)
        count = max(1, int(fraction * pool.sum() + 1e-9))
        candidates = sorted(cov[pool & (cov > 0)], reverse=True)[:count]
        chosen |= pool & (cov >= (candidates or [math.inf])[-1])
    apart = case.current - case.logp_old
    each = chosen * beta * share(case, case.mask)
    return Term(each * abs(apart), each * np.sign(apart), np.zeros(apart.shape), each * (apart != 0))


def kl_cov(**settings: object) -> Reference:
    """KL-Cov with other settings of its penalty."""
    penalty = cov_penalty(**settings)  # type: ignore[arg-type]
    share = micro_batch_mean if settings.get("scope") == "micro" else token_mean
    return clipped(selects=[dynamic_sampling], surrogate=unclipped, penalties=[penalty], share=share)


REFERENCES |= {
    "kl_cov": kl_cov(),
    "kl_cov(variant=authors)": kl_cov(scope="micro"),
    "kl_cov(fraction=0.2,beta=0.5)": kl_cov(fraction=0.2, beta=0.5),
}


# S-GRPO (arXiv:2504.20834): pi / sg[pi] A over the first alpha tokens of a response and lots below P, k at most.


@stage
def random_tokens(case: Case, advantage: Array, *, probability: float, alpha=0, k=math.inf) -> Kept:
    """T_i, token by token, as the case distinction has it; the denominators count it alone."""
    kept = np.zeros_like(case.mask)
    for row, tokens in enumerate(case.mask):
        for t, position in enumerate(tokens.nonzero()[0]):
            is_drawn = (int(case.lot[row, position]) + 2**63) / 2**64 < probability
            kept[row, position] = t < alpha or (kept[row].sum() < k and is_drawn)
    return kept, True


S_GRPO = {"surrogate": reinforce, "share": seq_mean, "stops_gradients": True}


REFERENCES |= {
    "s_grpo(share=0.4)": clipped(**S_GRPO, masks=[random_tokens(0.4)]),
    "s_grpo(share=0.5,first=2,limit=3)": clipped(**S_GRPO, masks=[random_tokens(0.5, 2, 3)]),
    "s_grpo(share=0.7,first=3,limit=1)": clipped(**S_GRPO, masks=[random_tokens(0.7, 3, 1)]),
    "s_grpo(share=1)+kl": clipped(**S_GRPO, penalties=[kl()]),
    "justrl+random_tokens(share=0.3)": clipped(masks=[random_tokens(0.3)]),
}
