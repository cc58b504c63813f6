"""KL-Cov (Cui et al., The Entropy Mechanism of RL for Reasoning, arXiv:2505.22617).

    Cov_t = (log pi(y_t) - mean log pi) (A_t - mean A)        means over the response tokens of the mini-batch
    l_t = -r A, and + beta |log pi - log pi_old| on the k N tokens of largest Cov; no clip

Deviations: at least one token bears the penalty (as in the code); ties at the boundary all do; no token does whose Cov
is not positive, as where all advantages are equal.
While the policy has not moved the penalty has no gradient. k is 2e-3 for 7B models, 2e-4 for 32B.
Variant authors: means and share per micro-batch.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from objectives.batch import TokenBatch, over_scope, scope_reads
from objectives.kinds import Aggregate, Penalty
from objectives.methods.clip_cov import covariance
from objectives.order import largest
from objectives.part import Part, parameter
from objectives.parts.dynamic_sampling import DynamicSampling
from objectives.parts.group_norm import GroupNorm
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.parts.unclipped import Unclipped
from objectives.zoo import recipe, register

PAPER = "arXiv:2505.22617"


@register
@dataclass(frozen=True)
class CovPenalty(Penalty):
    """Holds the tokens of largest covariance near the policy of the rollouts."""

    name = "cov_penalty"
    paper = PAPER
    chooses = True
    fraction: float = parameter(2e-3, "(0, 1]", "k, share of the tokens that bears the penalty")
    beta: float = parameter(1.0, "[0, inf)", "weight of the penalty in the loss")
    scope: str = parameter("minibatch", ("minibatch", "microbatch"), "where means and share are taken")

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"logp", "logp_old"}) | scope_reads(self.scope)

    def coefficients(self, batch: TokenBatch, aggregate: Aggregate) -> Tensor:
        chosen = over_scope(batch, self.scope, self._chosen)
        return torch.where(chosen, aggregate.coefficients(batch, batch.mask), 0.0)

    def _chosen(self, batch: TokenBatch) -> Tensor:
        count = max(1, int(self.fraction * int(batch.mask.sum()) + 1e-9))
        cov = covariance(batch, self.name)
        return largest(cov, batch.mask & (cov > 0), count)

    def penalty(self, rows: TokenBatch, logp: Tensor, entropy: Tensor | None) -> Tensor:
        return self.beta * (logp - rows.require("logp_old", self.name)).abs()

    def formula(self) -> str:
        return f"+ {self.beta:g} |log p/p_old| on the {self.fraction:g} of the tokens with the largest Cov(log p, A)"


_SHARED: tuple[Part, ...] = (DynamicSampling(), GroupNorm(), TokenRatio(), Unclipped(), TokenMean(), SinglePass())

recipe(
    "kl_cov",
    paper=PAPER,
    summary="the tokens that would cost most entropy are held near the old policy; no clip",
    variants={"paper": (*_SHARED, CovPenalty()), "authors": (*_SHARED, CovPenalty(scope="microbatch"))},
    contribution=("cov_penalty", "unclipped"),
    doc=__doc__,
)
