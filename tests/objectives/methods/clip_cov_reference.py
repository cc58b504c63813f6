"""Clip-Cov (arXiv:2505.22617): tokens drawn among those with low <= Cov <= high have no gradient; clip at 0.2.

Cov_t = (log pi(y_t) - mean log pi) (A_t - mean A). Drawn are the smallest splitmix64 of the bits of old log-probs as
float32. The authors' code: within each micro-batch, ratios clipped to [0, 2].
"""

import struct
from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case, Flags
from tests.objectives.parts_reference import clip, clipped, dynamic_sampling
from tests.objectives.reference import pools


def covariance(case: Case, advantage: Array, pool: Flags) -> Array:
    """[N, T] Cov with the means over a pool; exactly 0 where either is the same everywhere.

    Rounded to float32: what is tied in exact arithmetic, as both of two tokens are, is tied.
    """
    logp, others = case.current[pool], advantage[pool]
    if (logp == logp[0]).all() or (others == others[0]).all():
        return np.zeros(pool.shape)
    cov = (case.current - logp.sum() / len(logp)) * (advantage - others.sum() / len(others))
    return cov.astype(np.float32)


def splitmix64(value: float) -> int:
    """The hash of the 64 bits of a number."""
    (number,) = struct.unpack("<Q", struct.pack("<d", value))
    number = (number + 0x9E3779B97F4A7C15) % 2**64
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) % 2**64
    return number ^ (number >> 31)


def clip_cov(
    fraction: float = 2e-4, low: float = 1.0, high: float = 5.0, scope: str = "batch"
) -> Callable[[Case, Array], tuple[Flags, bool]]:
    """Not the floor(rho N) tokens, at least one, of the smallest hashes in the band, ties included."""

    def mask(case: Case, advantage: Array) -> tuple[Flags, bool]:
        kept = case.mask.copy()
        for pool in pools(case, case.mask, scope):
            cov = covariance(case, advantage, pool)
            band = pool & (cov >= low) & (cov <= high)
            key = {
                token: splitmix64(float(np.float32(case.logp_old[token])) + 0.0)
                for token in zip(*band.nonzero(), strict=True)
            }
            last = sorted(key.values())[: max(1, int(fraction * pool.sum() + 1e-9))]
            for token, number in key.items():
                kept[token] &= number not in last
        return kept, False

    return mask


RECIPES = {
    "clip_cov": clipped(selects=[dynamic_sampling], surrogate=clip(), masks=[clip_cov()]),
    "clip_cov(variant=authors)": clipped(
        selects=[dynamic_sampling], surrogate=clip(1.0, 1.0), masks=[clip_cov(scope="micro")]
    ),
}

COMPOSITIONS = {
    "clip_cov(fraction=0.2,low=0.1,high=1)": clipped(
        selects=[dynamic_sampling], surrogate=clip(0.2, 0.2), masks=[clip_cov(0.2, 0.1, 1.0)]
    ),
}
