"""KL-Cov (arXiv:2505.22617): no clip; + beta |log pi - log pi_old| on the k N tokens of the largest covariance.

The authors' code: means and share within each micro-batch.
"""

import math
from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case
from tests.objectives.methods.clip_cov_reference import covariance
from tests.objectives.parts_reference import clipped, dynamic_sampling, micro_batch_mean, token_mean, unclipped
from tests.objectives.reference import Reference, Share, Term, pools


def cov_penalty(
    fraction: float = 2e-3, beta: float = 1.0, scope: str = "batch"
) -> Callable[[Case, Array, Share], Term]:
    """Beta |z| on the floor(k N) tokens, at least one, of the largest covariance, if that is positive."""

    def penalty(case: Case, advantage: Array, share: Share) -> Term:
        chosen = np.zeros(case.mask.shape, dtype=bool)
        for pool in pools(case, case.mask, scope):
            cov = covariance(case, advantage, pool)
            count = max(1, int(fraction * pool.sum() + 1e-9))
            candidates = sorted(cov[pool & (cov > 0)], reverse=True)[:count]
            chosen |= pool & (cov >= (candidates or [math.inf])[-1])
        apart = case.current - case.logp_old
        each = chosen * beta * share(case, case.mask)
        return Term(each * abs(apart), each * np.sign(apart), np.zeros(apart.shape), each * (apart != 0))

    return penalty


def kl_cov(**settings: object) -> Reference:
    """KL-Cov with other settings of its penalty."""
    penalty = cov_penalty(**settings)  # type: ignore[arg-type]
    share = micro_batch_mean if settings.get("scope") == "micro" else token_mean
    return clipped(selects=[dynamic_sampling], surrogate=unclipped, penalties=[penalty], share=share)


RECIPES = {"kl_cov": kl_cov(), "kl_cov(variant=authors)": kl_cov(scope="micro")}

COMPOSITIONS = {"kl_cov(fraction=0.2,beta=0.5)": kl_cov(fraction=0.2, beta=0.5)}
