"""KL-Cov's penalty (Cui et al., arXiv:2505.22617): the tokens of largest covariance are held near the old policy."""

from dataclasses import dataclass

import torch
from torch import Tensor

from objectives.batch import TokenBatch, over_scope, scope_reads
from objectives.kinds import Aggregate, Penalty
from objectives.order import largest
from objectives.part import parameter
from objectives.parts.clip_cov import covariance
from objectives.zoo import register


@register
@dataclass(frozen=True)
class CovPenalty(Penalty):
    """Holds the tokens of largest covariance near the policy of the rollouts."""

    name = "cov_penalty"
    paper = "arXiv:2505.22617"
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
        anchor = logp.detach() if rows.on_policy else rows.require("logp_old", self.name)
        return self.beta * (logp - anchor).abs()

    def formula(self) -> str:
        return f"+ {self.beta:g} |log p/p_old| on the {self.fraction:g} of the tokens with the largest Cov(log p, A)"
