"""Clip-Cov (arXiv:2505.22617): tokens drawn among those with low < Cov < high have no gradient; clip at 0.2.

Cov_t = (log pi(y_t) - mean log pi) (A_t - mean A). Drawn are the smallest lots of those that the clip spares. The
authors' code: within each micro-batch, ratios clipped to [0, 2], mean over the tokens of each.
"""

from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case, Flags
from tests.objectives.parts_reference import clip, clipped, dynamic_sampling, micro_batch_mean
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


def clip_cov(
    fraction: float = 2e-4, low: float = 1.0, high: float = 5.0, scope: str = "batch", width: float = 0.2
) -> Callable[[Case, Array], tuple[Flags, bool]]:
    """Not the floor(rho N) tokens, at least one, of the smallest lots in the band."""

    def mask(case: Case, advantage: Array) -> tuple[Flags, bool]:
        kept, ratio = case.mask.copy(), np.exp(np.clip(case.current - case.logp_old, -20, 20))
        clipped_off = np.where(advantage > 0, ratio > 1 + width, (ratio < 1 - width) & (advantage < 0))
        for pool in pools(case, case.mask, scope):
            cov = covariance(case, advantage, pool)
            band = pool & (cov > low) & (cov < high) & ~clipped_off
            tokens = sorted(zip(*band.nonzero(), strict=True), key=lambda token: case.lot[token])
            for token in tokens[: max(1, int(fraction * pool.sum() + 1e-9))]:
                kept[token] = False
        return kept, False

    return mask


RECIPES = {
    "clip_cov": clipped(selects=[dynamic_sampling], surrogate=clip(), masks=[clip_cov()]),
    "clip_cov(variant=authors)": clipped(
        selects=[dynamic_sampling],
        surrogate=clip(1.0, 1.0),
        masks=[clip_cov(scope="micro", width=1.0)],
        share=micro_batch_mean,
    ),
}

COMPOSITIONS = {
    "clip_cov(fraction=0.2,low=0.1,high=1)": clipped(
        selects=[dynamic_sampling], surrogate=clip(0.2, 0.2), masks=[clip_cov(0.2, 0.1, 1.0)]
    ),
}
