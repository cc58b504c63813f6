"""Objectives with PPO's clip: GRPO's family with other advantages, weights, masks and passes."""

import math

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.by_hand.expressions import expression
from tests.objectives.by_hand.quantities import (
    centred,
    change,
    dapo_clip,
    finished,
    grpo_clip,
    icepop,
    k2,
    k3,
    lopti,
    mean_of,
    micro_batch_mean,
    mixed,
    not_spurious,
    overlong,
    per_group,
    ppo,
    reweighted,
    sequence_mean,
    sequence_sum,
    stare,
    token_mean,
    top_entropy,
    with_entropy,
    z_scored,
)


@expression("grpo+clip_higher")
def _(b: Case) -> Array:
    return (dapo_clip(b, z_scored(b)) + k3(b, 0.04)) * sequence_mean(b)


@expression("dr_grpo+clip_higher")
def _(b: Case) -> Array:
    return dapo_clip(b, centred(b, b.reward)) * sequence_sum(b) / b.max_length


@expression("dr_grpo+sampler_correction(cap=2)+overlong_filter")
def _(b: Case) -> Array:
    a = np.minimum(np.exp(b.logp_old - b.logp_sampler), 2) * centred(b, b.reward)
    b = finished(b)
    return grpo_clip(b, a) * sequence_sum(b) / b.max_length


@expression("dapo+kl(beta=0.001)")
def _(b: Case) -> Array:
    a, b = z_scored(b, overlong(b)), mixed(b)
    return (dapo_clip(b, a) + k3(b, 0.001)) * token_mean(b)


@expression("dapo+s2t")
def _(b: Case) -> Array:
    a, b = z_scored(b, overlong(b)), mixed(b)
    m = not_spurious(b, a)
    return m * dapo_clip(b, a) * token_mean(b, m)


@expression("dapo+overlong_filter-soft_overlong")
def _(b: Case) -> Array:
    a, b = z_scored(b), finished(mixed(b))
    return dapo_clip(b, a) * token_mean(b)


@expression("stapo+entropy20")
def _(b: Case) -> Array:
    a = z_scored(b)
    m = not_spurious(b, a) & top_entropy(b)
    return m * dapo_clip(b, a) * token_mean(b, m)


@expression("stapo+lopti")
def _(b: Case) -> list[Array]:
    a = z_scored(b)
    m = not_spurious(b, a)
    return lopti(b, m * dapo_clip(b, a) * token_mean(b, m))


@expression("stapo+stare")
def _(b: Case) -> Array:
    a = stare(b, z_scored(b))
    m = not_spurious(b, a)
    return m * dapo_clip(b, a) * token_mean(b, m)


@expression("stapo+lopti+stare")
def _(b: Case) -> list[Array]:
    a = stare(b, z_scored(b))
    m = not_spurious(b, a)
    return lopti(b, m * dapo_clip(b, a) * token_mean(b, m))


@expression("stapo+advantage_reweighting(alpha=0.1)")
def _(b: Case) -> Array:
    a = reweighted(b, z_scored(b), 0.1)
    m = not_spurious(b, a)
    return m * dapo_clip(b, a) * token_mean(b, m)


@expression("stapo+kl(beta=0.01,estimator=k2)")
def _(b: Case) -> Array:
    a = z_scored(b)
    m = not_spurious(b, a)
    return m * dapo_clip(b, a) * token_mean(b, m) + k2(b, 0.01) * token_mean(b)


@expression("stapo+dual_clip(cap=3)")
def _(b: Case) -> Array:
    a = z_scored(b)
    m = not_spurious(b, a)
    return m * ppo(np.exp(change(b)), a, 0.2, 0.28, cap=3) * token_mean(b, m)


@expression("justrl(variant=authors)+s2t")
def _(b: Case) -> Array:
    a = z_scored(b)
    m = not_spurious(b, a)
    return m * ppo(np.exp(change(b)), a, 0.2, 0.28, cap=10) * micro_batch_mean(b, m)


@expression("justrl+sampler_mask(low=0.9,high=1.2)")
def _(b: Case) -> Array:
    w = np.exp(mean_of(b, b.logp_old - b.logp_sampler))
    return ((w >= 0.9) & (w <= 1.2)) * dapo_clip(b, z_scored(b)) * token_mean(b)


@expression("icepop+s2t")
def _(b: Case) -> Array:
    a = icepop(b, z_scored(b))
    m = not_spurious(b, a)
    return m * grpo_clip(b, a) * sequence_mean(b, m)


@expression("maxrl+lopti")
def _(b: Case) -> list[Array]:
    a = centred(b, b.correct) / (per_group(b, b.correct, lambda c: np.full(len(c), c.mean())) + 1e-6)
    return lopti(b, grpo_clip(b, a) * token_mean(b))


@expression("lite_ppo+entropy20")
def _(b: Case) -> Array:
    m = top_entropy(b)
    return m * grpo_clip(b, centred(b, b.reward) / (b.reward.std(ddof=1) + 1e-4)) * token_mean(b, m)


@expression("passk(k=2)+clip_higher")
def _(b: Case) -> Array:
    def pass_at_2(c: Array) -> Array:
        n, right = len(c), int((c == 1).sum())
        wrong = n - right
        rho = 1 - math.comb(wrong, 2) / math.comb(n, 2)
        sigma = math.sqrt(rho * (1 - rho))
        if not sigma or n <= 2:
            return np.zeros(n)
        return np.where(c == 1, 1 - rho, 1 - rho - (wrong - 1) / (n - 1)) / (sigma + 1e-6)

    return dapo_clip(b, per_group(b, b.correct, pass_at_2)) * token_mean(b)


@expression("grpo+stare")
def _(b: Case) -> Array:
    return (grpo_clip(b, stare(b, z_scored(b))) + k3(b, 0.04)) * sequence_mean(b)


@expression("grpo+advantage_reweighting+lopti")
def _(b: Case) -> list[Array]:
    return lopti(b, (grpo_clip(b, reweighted(b, z_scored(b))) + k3(b, 0.04)) * sequence_mean(b))


@expression("lopti+entropy20")
def _(b: Case) -> list[Array]:
    m = top_entropy(b)
    policy = m * ppo(np.exp(change(b)), z_scored(b), 0.2, 0.24) * token_mean(b, m)
    return lopti(b, policy + k3(b, 0.001) * token_mean(b))


@expression("entropy_advantage+stapo")
def _(b: Case) -> Array:
    a = with_entropy(z_scored(b), b.current_entropy)
    m = not_spurious(b, a)
    return m * dapo_clip(b, a) * token_mean(b, m)


@expression("advantage_reweighting+entropy_advantage")
def _(b: Case) -> Array:
    a = with_entropy(reweighted(b, z_scored(b)), b.current_entropy)
    return (ppo(np.exp(change(b)), a, 0.2, 0.24) + k3(b, 0.001)) * token_mean(b)


@expression("advantage_reweighting+entropy_advantage(source=old)")
def _(b: Case) -> Array:
    a = reweighted(b, with_entropy(z_scored(b), b.entropy_old))
    return (ppo(np.exp(change(b)), a, 0.2, 0.24) + k3(b, 0.001)) * token_mean(b)


@expression("positive_nll+lopti")
def _(b: Case) -> list[Array]:
    right = b.mask & (b.correct == 1)[:, None]
    return lopti(b, dapo_clip(b, z_scored(b)) * token_mean(b) + 0.1 * right * token_mean(b, right))


@expression("qae+stapo")
def _(b: Case) -> Array:
    def over_the_quantile(r: Array) -> Array:
        share = np.array([(r <= value).mean() for value in r])
        return (r - r[share >= 0.4].min()) / (r.std(ddof=1) + 1e-6)

    a, b = per_group(b, b.reward, over_the_quantile), mixed(b)
    m = not_spurious(b, a)
    return m * dapo_clip(b, a) * token_mean(b, m)
