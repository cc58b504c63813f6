"""What a token counts, entropy, and which tokens train."""

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
    group_center,
    group_norm,
    kl,
    micro_batch_mean,
    quantile,
    reinforce,
    reweighting,
    sampler_correction,
    seq_mean,
    seq_sum,
    soft_overlong,
    token_mean,
    unclipped,
)
from tests.objectives.references.stages import Kept, Reference, Share, Sized, Term, Terms, groups, pools, stage

REFERENCES: dict[str, Reference] = {}

# Advantage Reweighting (arXiv:2505.12929, eq. 4): A (alpha p_old + 1 - alpha), on a clip at 1.24 with a small KL.
#
# The authors' code: dual clip at 10, clamped KL, the mean within each micro-batch.

AR = {"surrogate": clip(high=0.24), "penalties": [kl(0.001)]}


AR_CODE = {
    "surrogate": clip(high=0.24, cap=10.0),
    "penalties": [kl(0.001, clamp=5.0)],
    "share": micro_batch_mean,
}


REFERENCES |= {
    "advantage_reweighting": clipped(**AR, weights=[reweighting(0.3)]),
    "advantage_reweighting(variant=authors)": clipped(**AR_CODE, weights=[reweighting(0.2)]),
    "ar+sampler_correction(cap=1)": clipped(**AR, weights=[reweighting(0.3), sampler_correction(1.0)]),
}


# STARE (arXiv:2606.19236): W on the most surprising P of A > 0, M on those of A < 0, while H_old < target.
#
# The authors' code: surprisal of the current policy within each micro-batch, dual clip at 10, the mean there.


@stage
def surprisal_weights(
    case: Case, advantage: Array, *, amplify=1.1, attenuate=1.0, fraction=0.1, target=0.3, scope="batch", source="old"
) -> Array:
    """W and M on the ceil(P n) most surprising of the n tokens of each sign, ties included."""
    result = np.ones(advantage.shape)
    entropy = case.entropy_old[case.mask]
    if target is not None and len(entropy) and not entropy.sum() / len(entropy) < target:
        return result
    surprisal = -(case.logp_old if source == "old" else case.current)
    for sign, factor in ((1, amplify), (-1, attenuate)):
        for pool in pools(case, case.mask & (sign * advantage > 0), scope):
            count = min(int(pool.sum()), max(1, int(pool.sum() * fraction + 0.999999))) if fraction else 0
            if count:
                boundary = sorted(surprisal[pool], reverse=True)[count - 1]
                result[pool & (surprisal >= boundary)] = factor
    return result


def stare(**settings: object) -> Reference:
    """STARE with other weights."""
    return clipped(selects=[dynamic_sampling], weights=[surprisal_weights(**settings)])  # type: ignore[arg-type]


REFERENCES |= {
    "stare": stare(),
    "stare(variant=c2)": stare(attenuate=0.9),
    "stare(variant=authors)": clipped(
        **DAPO_CODE, selects=[dynamic_sampling], weights=[surprisal_weights(scope="micro", source="current")]
    ),
    "stare(target_entropy=none,fraction=0.25,amplify=2,attenuate=0.5)": stare(
        amplify=2.0, attenuate=0.5, fraction=0.25, target=None
    ),
    "stare(source=current,target_entropy=0.5)": stare(target=0.5, source="current"),
    "stare(target_entropy=0.25)": stare(target=0.25),
    "stare(scope=microbatch,fraction=1)": stare(fraction=1.0, scope="micro"),
}


# DG (arXiv:2603.14608; JeanKaddour/tpo@73473b9, src/tpo/algorithms.py:219-234): sigma(A l / eta) A log pi.


@stage
def delight(case: Case, advantage: Array, *, eta=1.0) -> Array:
    """The gate of the current surprisal."""
    return np.exp(-np.logaddexp(0.0, advantage * case.current / eta))


DG = {"advantage": group_center, "surrogate": reinforce, "share": seq_sum, "stops_gradients": True}


REFERENCES |= {
    "dg": clipped(**DG, weights=[delight()]),
    "dg(eta=0.5)": clipped(**DG, weights=[delight(0.5)]),
    "justrl+dg": clipped(surrogate=clip(0.2, 0.28), weights=[delight()], stops_gradients=True),
}


# FIPO (arXiv:2603.19835): the clipped objective times exp of the discounted log-ratios from the token on, in [1, 1.2].
#
# gamma = 2^(-1/32); ratios above 10 have no say; at most 1 where A < 0 and r > 4; dual clip at 10.


@stage
def future_kl(case: Case, advantage: Array, *, half_life=32.0, low=1.0, high=1.2, cap=10.0, safe=4.0) -> Array:
    """The sum over s >= t, term by term, over the tokens that the loss sees."""
    result = np.ones(case.mask.shape)
    change = np.clip(case.current - case.logp_old, -20, 20)
    for row, mask in enumerate(case.mask):
        z = change[row, mask]
        for at, t in enumerate(mask.nonzero()[0]):
            terms = [0.5 ** ((s - at) / half_life) * z[s] if np.exp(z[s]) <= cap else 0.0 for s in range(at, len(z))]
            factor = np.clip(np.exp(sum(terms)), low, high)
            bad = advantage[row, t] < 0 and np.exp(z[at]) > safe
            result[row, t] = min(factor, 1.0) if bad else factor
    return result


FIPO = {"surrogate": clip(cap=10.0), "stops_gradients": True}


REFERENCES |= {
    "fipo": clipped(**FIPO, weights=[future_kl()]),
    "fipo(low=0.8,half_life=2,cap=3,safe=1.5)": clipped(**FIPO, weights=[future_kl(2.0, 0.8, cap=3.0, safe=1.5)]),
}


# HAPO (arXiv:2509.16591): advantages over tokens, weights and clip bounds by where a token's entropy lies.
#
# h is log H less its value of nearest rank at 0.8, over its largest value above, over its smallest's size below.


@stage
def token_group_norm(case: Case, reward: Array, *, guard=5.0) -> Sized:
    """(R - mean) / (std + 1e-6), ddof 0, over the tokens of the group; group_norm where an |A| is >= guard."""
    result, size = group_norm(case, reward)
    _, scale = group_center(case, reward)
    for rows in groups(case):
        there = rows & case.mask.any(1)
        values = np.repeat(reward[there], case.mask.sum(1)[there])
        if len(values) == 0:
            continue
        centred = reward - values.sum() / len(values)
        centred[abs(centred) < 1e-9] = 0.0
        deviation = math.sqrt(((values - values.sum() / len(values)) ** 2).sum() / len(values))
        found = np.where(centred == 0, 0.0, centred / (deviation + 1e-6))
        if (abs(found[there]) < guard).all():
            result[rows] = found[rows]
            size[rows] = ((scale + abs(reward)) / (deviation + 1e-6) * (found != 0))[rows]
    return result, size


def height(case: Case, scope: str) -> Array:
    """[N, T] h in each pool."""
    result = np.zeros(case.mask.shape)
    for pool in pools(case, case.mask, scope):
        entropy = np.log(np.maximum(case.current_entropy[pool], 1e-8))
        ordered = sorted(entropy.tolist())
        if scope == "micro":  # the code: starriver030515/HAPO@7671dde, verl/trainer/ppo/core_algos.py:82-125
            h = entropy - ordered[round(0.8 * (len(entropy) - 1))]
            result[pool] = np.where(h > 0, h / (h.max() or 1.0), h / (h.min() or 1.0))
            continue
        h = entropy - ordered[math.ceil(0.8 * len(entropy) - 1e-9) - 1]
        result[pool] = np.where(h > 0, h / (h.max() or 1.0), h / (-h.min() or 1.0))
    return result


def hapo_bounds(case: Case, scope: str, high: float, alpha: float = 1.0) -> Sized:
    """[N, T] widths below and above."""
    h = height(case, scope)
    return 0.2 * (1 - alpha * np.minimum(h, 0)), high * (1 + alpha * np.maximum(h, 0))


@stage
def zones(case: Case, advantage: Array, *, scope="batch", high=0.28, beta=1.0) -> Array:
    """1 + beta h of unsure tokens outside the half widths, and of sure ones inside."""
    h, ratio = height(case, scope), np.exp(np.clip(case.current - case.logp_old, -20, 20))
    below, above = hapo_bounds(case, scope, high)
    inside = (ratio > 1 - below / 2) & (ratio < 1 + above / 2)
    return np.where(np.where(h > 0, ~inside, inside), 1 + beta * h, 1.0)


@stage
def heterogeneous_clip(
    case: Case, ratio: Array, slope: Array, advantage: Array, *, scope="batch", high=0.28, alpha=1.0
) -> Terms:
    """PPO's clip with bounds token by token, dual clip at 10."""
    below, above = hapo_bounds(case, scope, high, alpha)
    return clip(below, above, 10.0)(case, ratio, slope, advantage)


REFERENCES |= {
    "hapo": clipped(
        advantage=token_group_norm(), weights=[zones()], surrogate=heterogeneous_clip(), stops_gradients=True
    ),
    "hapo(variant=authors)": clipped(
        advantage=token_group_norm(),
        weights=[zones("micro", 0.2)],
        surrogate=heterogeneous_clip("micro", 0.2),
        share=micro_batch_mean,
        stops_gradients=True,
    ),
    "hapo(guard=1.5,beta=0.5)": clipped(
        advantage=token_group_norm(1.5),
        weights=[zones(beta=0.5)],
        surrogate=heterogeneous_clip(),
        stops_gradients=True,
    ),
    "hapo-zone_reweighting": clipped(advantage=token_group_norm(), surrogate=heterogeneous_clip()),
}


# Positive-advantage reweighting (arXiv:2511.05993): lambda A where A > 0, lambda lower after a step of low entropy.


@stage
def positive(case: Case, advantage: Array, *, target: float | None, start=1.0, step=0.05) -> Array:
    """Lambda of the first step."""
    weight = start
    if target is not None and case.mask.any():
        entropy = case.entropy_old[case.mask].sum() / case.mask.sum()
        weight = min(1.0, max(0.0, start + step * np.sign(entropy - target)))
    return np.where(advantage > 0, weight, 1.0)


REFERENCES |= {
    "par(target_entropy=0.3)": clipped(surrogate=clip(), weights=[positive(0.3)]),
    "par(target_entropy=none,start=0.5)": clipped(surrogate=clip(), weights=[positive(None, 0.5)]),
    "par(target_entropy=0.5,start=0.02)": clipped(surrogate=clip(), weights=[positive(0.5, 0.02)]),
}


# Perplexity shaping (arXiv:2508.02260): A clip(1 - 0.01 z, 0.8, 1.2), z of the log-perplexity in its group, on DAPO.
#
# z is by the mean and the deviation (ddof 0) of what is no further than 1.5 quartile distances beyond the quartiles.


@stage
def perplexity(case: Case, advantage: Array, *, alpha=0.01, width=0.2) -> Array:
    """The weight of each response."""
    score = np.zeros(len(case.group))
    there = case.mask.any(1)
    for rows in groups(case):
        rows = rows & there
        if not rows.any():
            continue
        surprise = np.array([-case.logp_old[row][case.mask[row]].mean() for row in rows.nonzero()[0]])
        low, high = quantile(surprise, "0.25"), quantile(surprise, "0.75")
        usual = surprise[(surprise >= low - 1.5 * (high - low)) & (surprise <= high + 1.5 * (high - low))]
        deviation = usual.std()
        score[rows] = (surprise - usual.mean()) / (deviation if deviation > 1e-6 else 1.0)
    return np.clip(1 - alpha * score, 1 - width, 1 + width)[:, None]


SHAPED = {"rewards": [soft_overlong()], "selects": [dynamic_sampling]}


REFERENCES |= {
    "perplexity_shaping": clipped(**SHAPED, weights=[perplexity()]),
    "perplexity_shaping(variant=authors)": clipped(**SHAPED, weights=[perplexity()], share=micro_batch_mean),
    "perplexity_shaping(alpha=0.3,width=0.1)": clipped(**SHAPED, weights=[perplexity(0.3, 0.1)]),
    "justrl+perplexity_shaping(alpha=-0.1)": clipped(weights=[perplexity(-0.1)]),
}


# Position shaping (arXiv:2508.02260): A + sign(A) min(0.1 sigmoid(15 (s - 1/2)), |A| / 2), s the place, on DAPO.


@stage
def late(case: Case, advantage: Array, *, gamma=0.1, slope=15.0) -> Array:
    """What an advantage is multiplied by: 1 + min(bonus / |A|, 1/2)."""
    factor = np.ones(case.mask.shape)
    for row, tokens in enumerate(case.mask):
        places = tokens.nonzero()[0]
        for before, t in enumerate(places):
            bonus = gamma / (1 + np.exp(-slope * (before / len(places) - 0.5)))
            size = abs(advantage[row, t])
            factor[row, t] = 1 + min(bonus / size, 0.5) if size else 1.0
    return factor


SHAPED = {"rewards": [soft_overlong()], "selects": [dynamic_sampling]}


REFERENCES |= {
    "position_shaping": clipped(**SHAPED, weights=[late()]),
    "position_shaping(variant=authors)": clipped(**SHAPED, weights=[late()], share=micro_batch_mean),
    "position_shaping(gamma=2,slope=3)": clipped(**SHAPED, weights=[late(2.0, 3.0)]),
    "justrl+position_shaping": clipped(weights=[late()]),
}


# Entropy advantage (arXiv:2506.14758): A + min(0.4 H, |A| / 2), H of the current policy; clip at 1.28.


@stage
def shaped(case: Case, advantage: Array, *, alpha=0.4, kappa=2.0, old=False) -> Array:
    """What A is multiplied by when that is added to it."""
    entropy = case.entropy_old if old else case.current_entropy
    added = np.minimum(alpha * entropy, abs(advantage) / kappa)
    return 1 + np.divide(added, advantage, out=np.zeros(added.shape), where=advantage != 0)


REFERENCES |= {
    "entropy_advantage": clipped(weights=[shaped()]),
    "entropy_advantage(alpha=1,kappa=1.1)": clipped(weights=[shaped(1.0, 1.1)]),
    "entropy_advantage(source=old)+ar": clipped(weights=[shaped(old=True), reweighting(0.3)]),
}


# Skywork-OR1's MAGIC (arXiv:2505.22312): GRPO's token mean, less alpha H; the first step's alpha is its start.
#
# Alpha is on while the mean of H_old, or of -log p_old, is below the target. SkyworkAI/Skywork-OR1@64e96af,
# core_algos.py:56-74, ray_trainer.py:1168, dp_actor.py:269-284: the switch is that of the last step, and on at first.


@stage
def adaptive_entropy(
    case: Case, advantage: Array, share: Share, *, start=0.0, target=0.2, surprisal=False, delayed=False
) -> Term:
    """The entropy bonus of the first step."""
    measured = (-case.logp_old if surprisal else case.entropy_old)[case.mask]
    is_on = delayed or (len(measured) > 0 and measured.mean() < target)
    return entropy_bonus(start if is_on else 0.0)(case, advantage, share)


MAGIC = {"selects": [dynamic_sampling], "surrogate": clip()}


MAGIC_CODE = {**MAGIC, "share": micro_batch_mean}


REFERENCES |= {
    "magic": clipped(**MAGIC, penalties=[adaptive_entropy()]),
    "magic(variant=authors)": clipped(**MAGIC_CODE, penalties=[adaptive_entropy(surprisal=True, delayed=True)]),
    "magic(start=0.003)": clipped(**MAGIC, penalties=[adaptive_entropy(0.003)]),
    "magic(start=0.003,target_entropy=0.5)": clipped(**MAGIC, penalties=[adaptive_entropy(0.003, 0.5)]),
    "magic(start=0.003,measured=surprisal,target_entropy=1)": clipped(
        **MAGIC, penalties=[adaptive_entropy(0.003, 1.0, surprisal=True)]
    ),
    "magic(variant=authors,start=0.003)": clipped(**MAGIC_CODE, penalties=[adaptive_entropy(0.003, delayed=True)]),
    "justrl+adaptive_entropy(start=0.01,target_entropy=0.3)": clipped(penalties=[adaptive_entropy(0.01, 0.3)]),
}


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
# Cov_t = (log pi(y_t) - mean log pi) (A_t - mean A). Drawn are the smallest random keys that the clip spares. The
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
    """Not the floor(rho N) tokens, at least one, of the smallest random keys in the band."""
    kept, ratio = case.mask.copy(), np.exp(np.clip(case.current - case.logp_old, -20, 20))
    clipped_off = np.where(advantage > 0, ratio > 1 + width, (ratio < 1 - width) & (advantage < 0))
    for pool in pools(case, case.mask, scope):
        cov = covariance(case, advantage, pool)
        band = pool & (cov > low) & (cov < high) & ~clipped_off
        tokens = sorted(zip(*band.nonzero(), strict=True), key=lambda token: case.random_key[token])
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


# S-GRPO (arXiv:2504.20834): pi / sg[pi] A over the first alpha tokens of a response and random keys below P, k at most.


@stage
def random_tokens(case: Case, advantage: Array, *, probability: float, alpha=0, k=math.inf) -> Kept:
    """T_i, token by token, as the case distinction has it; the denominators count it alone."""
    kept = np.zeros_like(case.mask)
    for row, tokens in enumerate(case.mask):
        for t, position in enumerate(tokens.nonzero()[0]):
            is_drawn = (int(case.random_key[row, position]) + 2**63) / 2**64 < probability
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
