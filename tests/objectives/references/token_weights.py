"""What a token counts, and entropy."""

import math

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.references.grpo import DAPO_CODE
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
    seq_sum,
    soft_overlong,
)
from tests.objectives.references.stages import Reference, Share, Sized, Term, Terms, groups, pools, stage

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
