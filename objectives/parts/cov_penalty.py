"""KL-Cov's penalty (Cui et al., arXiv:2505.22617): the tokens of largest covariance are held near the old policy."""

from dataclasses import dataclass

from objectives.batch import Prepared, over_scope, scope_reads
from objectives.kinds import Aggregate, Penalty
from objectives.lazy import Tensor, torch
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
    troubles = ("entropy_collapse",)
    chooses = True
    fraction: float = parameter(2e-3, "(0, 1]", "k, share of the tokens that bears the penalty")
    beta: float = parameter(1.0, "[0, inf)", "weight of the penalty in the loss")
    scope: str = parameter("minibatch", ("minibatch", "microbatch"), "where means and share are taken")

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"logp", "logp_old"}) | scope_reads(self.scope)

    def coefficients(self, batch: Prepared, aggregate: Aggregate) -> Tensor:
        chosen = over_scope(batch, self.scope, self._chosen)
        return torch.where(chosen, aggregate.coefficients(batch, batch.mask), 0.0)

    def _chosen(self, batch: Prepared) -> Tensor:
        count = max(1, int(self.fraction * int(batch.mask.sum()) + 1e-9))
        cov = covariance(batch, self.name)
        return largest(cov, batch.mask & (cov > 0), count)

    def penalty(self, rows: Prepared, logp: Tensor, entropy: Tensor | None) -> Tensor:
        anchor = logp.detach() if rows.on_policy else rows.require("logp_old", self.name)
        return self.beta * (logp - anchor).abs()

    def formula(self) -> str:
        where = " of each micro-batch" if self.scope == "microbatch" else ""
        chosen = f"the {self.fraction:g} of the tokens{where} with the largest Cov(log p, A)"
        return f"+ {self.beta:g} |log p/p_old| on {chosen}"
