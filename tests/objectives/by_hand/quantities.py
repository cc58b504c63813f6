"""What papers and pages say of the parts, in numpy: for derivations that know nothing of how parts are put together.

All are [N, T], or [N, 1] where every token of a response has the same.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tests.objectives.batches import Array, Case, Flags

# ---- what an answer is worth: [N] rewards -> [N, 1] ------------------------------------------------------------------


def per_group(b: Case, values: Array, function: Callable[[Array], Array]) -> Array:
    result = np.zeros(len(values))
    for name in set(b.group.tolist()):
        result[b.group == name] = function(values[b.group == name])
    return result[:, None]


def centred(b: Case, reward: Array) -> Array:
    """R - mean of the group; 0 where all are equal."""
    return per_group(b, reward, lambda r: (r - r.mean()) * (np.ptp(r) > 0))


def z_scored(b: Case, reward: Array | None = None) -> Array:
    """GRPO: (R - mean) / (std + 1e-6), ddof 1."""
    reward = b.reward if reward is None else reward
    return centred(b, reward) / (per_group(b, reward, lambda r: np.full(len(r), r.std(ddof=1))) + 1e-6)


def overlong(b: Case) -> Array:
    """DAPO eq. 13: R + 0 up to 4/5 of the limit, falling to -1 at the limit."""
    cache = b.max_length / 5
    return b.reward + np.clip((b.max_length - cache - b.length) / cache, -1, 0)


def charged(b: Case, beta: float) -> Array:
    """R - beta sum log pi_old / pi_ref, of the whole response."""
    return b.reward - beta * ((b.logp_old - b.logp_ref) * b.mask).sum(1)


# ---- who is trained on -----------------------------------------------------------------------------------------------


def kept(b: Case, rows: Flags) -> Case:
    """The batch in which the other responses have no tokens."""
    return replace(b, mask=b.mask & rows[:, None])


def mixed(b: Case) -> Case:
    """Dynamic sampling: groups with some right and some wrong responses."""
    return kept(b, per_group(b, b.correct, lambda c: np.full(len(c), np.ptp(c) > 0))[:, 0] > 0)


def finished(b: Case) -> Case:
    """Overlong filter: responses that were not truncated."""
    return kept(b, ~b.truncated)


# ---- ratios, and what a clip leaves of r A ---------------------------------------------------------------------------


def change(b: Case) -> Array:
    """[N, T] log pi / pi_old; 0 where no token is."""
    return np.where(b.mask, b.current - b.logp_old, 0.0)


def mean_of(b: Case, values: Array) -> Array:
    """[N, 1] mean over the response's tokens."""
    return (values * b.mask).sum(1, keepdims=True) / np.maximum(1, b.mask.sum(1, keepdims=True))


def gspo_ratio(b: Case) -> Array:
    """[N, 1] exp(mean_t log pi / pi_old)."""
    return np.exp(mean_of(b, change(b)))


def ppo(r: Array, a: Array, low: float = 0.2, high: float = 0.2, cap: float = math.inf) -> Array:
    """Of r A: all, and nothing where the clip holds: A > 0 above 1 + high, A < 0 below 1 - low or above the cap."""
    held = ((a > 0) & (r > 1 + high)) | ((a < 0) & ((r < 1 - low) | (r > cap)))
    return np.where(held, 0.0, r * a)


def dapo_clip(b: Case, a: Array) -> Array:
    return ppo(np.exp(change(b)), a, 0.2, 0.28)


def grpo_clip(b: Case, a: Array) -> Array:
    return ppo(np.exp(change(b)), a, 0.2, 0.2)


# ---- masks -----------------------------------------------------------------------------------------------------------


def top_entropy(b: Case) -> Flags:
    """20-Entropy: the fifth of the tokens with the highest current entropy, ties included."""
    values = np.sort(b.current_entropy[b.mask])[::-1]
    if not len(values):
        return b.mask
    return b.mask & (b.current_entropy >= values[max(1, math.ceil(0.2 * len(values) - 1e-9)) - 1])


def not_spurious(b: Case, a: Array) -> Flags:
    """STAPO: without A > 0, pi < 0.002, and H below the 75 % quantile of those."""
    pool = b.mask & (a > 0) & (b.current < math.log(0.002))
    if not pool.any():
        return b.mask
    return b.mask & ~(pool & (b.current_entropy < np.quantile(b.current_entropy[pool], 0.75)))


def stayed(b: Case, a: Array, delta: float) -> Flags:
    """DeepSeek-V3.2: without bad responses whose log-prob fell by more than delta in the mean."""
    return b.mask & ~((a < 0) & (mean_of(b, -change(b)) > delta))


def lopti(b: Case, pushes: Array) -> list[Array]:
    """First the tokens with pi_old < 0.5, then the others."""
    low = b.logp_old < math.log(0.5)
    return [pushes * low, pushes * ~low]


# ---- weights ---------------------------------------------------------------------------------------------------------


def reweighted(b: Case, a: Array, alpha: float = 0.3) -> Array:
    """Advantage Reweighting: (alpha pi_old + 1 - alpha) A."""
    return (alpha * np.exp(b.logp_old) + 1 - alpha) * a


def stare(b: Case, a: Array) -> Array:
    """STARE: 1.1 A on the tenth of the tokens with A > 0 of least pi_old, ties too, while the mean of H_old < 0.3."""
    good = b.mask & (a > 0)
    if not good.any() or b.entropy_old[b.mask].mean() >= 0.3:
        return a * np.ones(b.mask.shape)
    rarest = np.sort(b.logp_old[good])[math.ceil(good.sum() / 10 - 1e-9) - 1]
    return np.where(good & (b.logp_old <= rarest), 1.1, 1.0) * a


def icepop(b: Case, a: Array) -> Array:
    """Times w = pi_old / pi_sampler where that is in [0.5, 5], else 0."""
    w = np.exp(b.logp_old - b.logp_sampler)
    return np.where((w >= 0.5) & (w <= 5), w, 0.0) * a


def with_entropy(a: Array, entropy: Array) -> Array:
    """A + min(0.4 H, |A| / 2)."""
    return a + np.minimum(0.4 * entropy, abs(a) / 2)


# ---- denominators: the share of each token that is trained on, by the tokens that count [N, T] -----------------------


def token_mean(b: Case, counted: Flags | None = None) -> Array:
    return b.mask / max(1, int((b.mask if counted is None else counted).sum()))


def sequence_sum(b: Case) -> Array:
    return b.mask / max(1, int(b.mask.any(1).sum()))


def sequence_mean(b: Case, counted: Flags | None = None) -> Array:
    return sequence_sum(b) / np.maximum(1, (b.mask if counted is None else counted).sum(1, keepdims=True))


def micro_batch_mean(b: Case, counted: Flags) -> Array:
    """The token mean of each micro-batch, times its part of the responses."""
    share = np.zeros(b.mask.shape)
    for number in set(b.micro_batch.tolist()):
        rows = b.micro_batch == number
        share[rows] = rows.sum() / len(rows) / max(1, int(counted[rows].sum()))
    return share * b.mask


# ---- penalties: minus the derivative by log pi -----------------------------------------------------------------------


def k3(b: Case, beta: float) -> Array:
    """Of beta (pi_ref / pi - log pi_ref / pi - 1)."""
    return beta * (np.exp(b.logp_ref - b.current) - 1)


def k2(b: Case, beta: float) -> Array:
    """Of beta (log pi_ref / pi)^2 / 2."""
    return beta * (b.logp_ref - b.current)
