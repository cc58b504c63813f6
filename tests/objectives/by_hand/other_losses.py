"""Objectives with another ratio or another loss than PPO's clip of each token."""

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.by_hand.expressions import expression
from tests.objectives.by_hand.quantities import (
    centred,
    change,
    charged,
    finished,
    grpo_clip,
    gspo_ratio,
    icepop,
    k2,
    k3,
    lopti,
    mean_of,
    mixed,
    not_spurious,
    overlong,
    per_group,
    ppo,
    sequence_mean,
    sequence_sum,
    stayed,
    token_mean,
    top_entropy,
    z_scored,
)


@expression("gspo+entropy20")
def _(b: Case) -> Array:
    m = top_entropy(b)
    return m * ppo(gspo_ratio(b), z_scored(b), 3e-4, 4e-4) * sequence_mean(b, m)


@expression("gspo+s2t")
def _(b: Case) -> Array:
    a = z_scored(b)
    m = not_spurious(b, a)
    return m * ppo(gspo_ratio(b), a, 3e-4, 4e-4) * sequence_mean(b, m)


@expression("gspo+dapo")
def _(b: Case) -> Array:
    a, b = z_scored(b, overlong(b)), mixed(b)
    return ppo(gspo_ratio(b), a, 3e-4, 0.28) * token_mean(b)


@expression("gspo+off_policy_mask(delta=0.1)")
def _(b: Case) -> Array:
    a = z_scored(b)
    return stayed(b, a, 0.1) * ppo(gspo_ratio(b), a, 3e-4, 4e-4) * sequence_mean(b)


@expression("cispo+s2t")
def _(b: Case) -> Array:
    a = z_scored(b)
    m = not_spurious(b, a)
    return m * np.clip(np.exp(change(b)), 0, 5) * a * token_mean(b, m)


@expression("cispo+entropy20+kl(beta=0.001)")
def _(b: Case) -> Array:
    m = top_entropy(b)
    return m * np.clip(np.exp(change(b)), 0, 5) * z_scored(b) * token_mean(b, m) + k3(b, 0.001) * token_mean(b)


@expression("cispo+dynamic_sampling+soft_overlong")
def _(b: Case) -> Array:
    a, b = z_scored(b, overlong(b)), mixed(b)
    return np.clip(np.exp(change(b)), 0, 5) * a * token_mean(b)


@expression("rloo+icepop")
def _(b: Case) -> Array:
    a = per_group(b, charged(b, 0.03), lambda r: r - (r.sum() - r) / (len(r) - 1))
    return np.exp(change(b)) * icepop(b, a) * sequence_sum(b)


@expression("rloo+clip")
def _(b: Case) -> Array:
    a = per_group(b, charged(b, 0.03), lambda r: r - (r.sum() - r) / (len(r) - 1))
    return grpo_clip(b, a) * sequence_sum(b)


@expression("opo+s2t")
def _(b: Case) -> Array:
    value, tokens = centred(b, b.reward)[:, 0], b.mask.sum(1)
    a = np.zeros((len(value), 1))
    for name in set(b.group.tolist()):
        rows = b.group == name
        a[rows, 0] = value[rows] - (tokens * value)[rows].sum() / tokens[rows].sum()
    return not_spurious(b, a) * a * sequence_sum(b)


@expression("topr+luspo")
def _(b: Case) -> Array:
    a = np.where(b.correct == 1, 1.0, -1.0)[:, None]
    return ppo(gspo_ratio(b), a, 2e-3, 2.5e-3) * sequence_sum(b)


@expression("gmpo+entropy20")
def _(b: Case) -> Array:
    a, z, m = z_scored(b), change(b), top_entropy(b)
    held = np.where(a >= 0, np.minimum(z, 0.4), np.maximum(z, -0.4))
    return m * (held == z) * np.exp(mean_of(b, held)) * a * sequence_mean(b, m)


@expression("sapo+entropy20+dynamic_sampling")
def _(b: Case) -> Array:
    a, b = z_scored(b), mixed(b)
    r, m, tau = np.exp(change(b)), top_entropy(b), np.where(a > 0, 1.0, 1.05)
    return m * r * a / np.cosh(tau * (r - 1) / 2) ** 2 * sequence_mean(b, m)


@expression("vespo+stapo")
def _(b: Case) -> Array:
    a, log_w = z_scored(b), np.clip(change(b).sum(1, keepdims=True), -20, 20)
    w, m = np.exp(log_w), not_spurious(b, a)
    phi = np.where(a >= 0, np.exp(3 + 2 * log_w - 3 * w), np.exp(2 + 3 * log_w - 2 * w))
    return m * phi * a * token_mean(b, m)


@expression("dppo+kl(beta=0.001)+dynamic_sampling")
def _(b: Case) -> Array:
    a, b = centred(b, b.reward), mixed(b)
    p, p_sampler = np.exp(b.current), np.exp(b.logp_sampler)
    r = p / p_sampler
    dropped = (abs(p_sampler - p) > 0.15) & (((a > 0) & (r > 1)) | ((a < 0) & (r < 1)))
    return (~dropped * r * a + k3(b, 0.001)) * token_mean(b)


@expression("ce_gppo+stapo")
def _(b: Case) -> Array:
    a, b = z_scored(b), mixed(b)
    r, m = np.exp(change(b)), not_spurious(b, a)
    g = np.where((a < 0) & (r < 0.8), 0.5 * 0.8, np.where((a > 0) & (r > 1.2), 1.2, r))
    return m * np.where((a < 0) & (r > 10), 0.0, g) * a * token_mean(b, m)


@expression("aspo+s2t-kl")
def _(b: Case) -> Array:
    a, r = z_scored(b), np.exp(change(b))
    m = not_spurious(b, a)
    g = np.where(a > 0, np.minimum(1 / r, 3) * (r <= 1.2), np.minimum(r, 3) * (r >= 0.8))
    return m * g * a * token_mean(b, m)


@expression("reinforce_pp_baseline+overlong_filter")
def _(b: Case) -> Array:
    there = per_group(b, (~b.truncated).astype(float), lambda left: np.full(len(left), left.any()))[:, 0] > 0
    a = centred(b, b.reward) * there[:, None]
    a = a / np.sqrt(np.maximum((a[there] ** 2).mean() if there.any() else 0.0, 1e-8))
    b = finished(b)
    return (grpo_clip(b, a) + k2(b, 1e-5)) * sequence_mean(b)


@expression("w_reinforce+kl(beta=0.01)")
def _(b: Case) -> Array:
    a = np.where(b.correct == 1, 0.1, -1.0)[:, None]
    return (grpo_clip(b, a) + k3(b, 0.01)) * token_mean(b)


@expression("m2po+lopti")
def _(b: Case) -> list[Array]:
    a, z = z_scored(b), change(b)
    harmful = b.mask & (((a > 0) & (z > 0)) | ((a < 0) & (z < 0)))
    m = b.mask
    while (m & harmful).any() and (z[m & harmful] ** 2).mean() > 0.04:
        m = m & ~(harmful & (abs(z) >= abs(z[m & harmful]).max()))
    return lopti(b, m * np.exp(z) * a * token_mean(b))


@expression("dg+dynamic_sampling")
def _(b: Case) -> Array:
    a, b = centred(b, b.reward), mixed(b)
    return a / (1 + np.exp(a * b.current)) * sequence_sum(b)


@expression("up+s2t")
def _(b: Case) -> Array:
    a, r = z_scored(b), np.exp(change(b))
    m = not_spurious(b, a)
    return m * np.where(a > 0, a, ppo(r, a, 0.2)) * token_mean(b, m)


@expression("rec(variant=ring)+unbiased_kl(beta=0.01)")
def _(b: Case) -> Array:
    a, r = centred(b, b.reward), np.exp(change(b))
    ring = ((r >= 0.8) & (r <= 1.2)) | ((a >= 0) & (r <= 0.4)) | ((a <= 0) & (r >= 3))
    drift = np.exp(b.logp_ref - b.current)
    kl = r * (drift - (b.logp_ref - b.current) - 1) + r * (1 - drift)
    return (ring * a - 0.01 * kl) * token_mean(b)


@expression("kimi+overlong_filter")
def _(b: Case) -> Array:
    a, b = centred(b, b.reward), finished(b)
    return (a - 0.1 * change(b).sum(1, keepdims=True)) * sequence_sum(b)


@expression("real+kl(beta=0.01)")
def _(b: Case) -> Array:
    a, s = centred(b, b.reward)[:, 0], mean_of(b, change(b))[:, 0] / 0.5
    by_s = np.zeros(len(a))
    for name in set(b.group.tolist()):
        good, others = (b.group == name) & (a > 0), (b.group == name) & (a <= 0)
        if good.any() and others.any():
            size = good.sum() + others.sum()
            by_s[good] = size * np.exp(-s[good]) / (1 + np.exp(-s[good]).sum()) / 0.5
            by_s[others] = -size * np.exp(s[others]) / (1 + np.exp(s[others]).sum()) / 0.5
    return (by_s[:, None] + k3(b, 0.01)) * sequence_mean(b)
