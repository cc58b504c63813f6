"""Clip-Cov's mask (Cui et al., arXiv:2505.22617): a few tokens of large covariance are silenced, drawn by lot.

Cov_t = (log pi(y_t) - mean log pi) (A_t - mean A)        means over the response tokens of the mini-batch
"""

from dataclasses import dataclass

from torch import Tensor

from objectives.batch import TokenBatch, over_scope, scope_reads
from objectives.groups import centred
from objectives.kinds import Mask
from objectives.order import drawn
from objectives.part import parameter
from objectives.zoo import register


@register
@dataclass(frozen=True)
class ClipCov(Mask):
    """Silences tokens drawn among those whose log-prob and advantage vary together."""

    name = "clip_cov"
    paper = "arXiv:2505.22617"
    fraction: float = parameter(2e-4, "(0, 1]", "rho, share of the tokens that is silenced")
    low: float = parameter(1.0, "(-inf, inf)", "smallest covariance of a token that may be drawn")
    high: float = parameter(5.0, "(-inf, inf)", "largest covariance of a token that may be drawn")
    scope: str = parameter("minibatch", ("minibatch", "microbatch"), "where means and share are taken")
    shrinks_denominator = False

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"logp", "logp_old"}) | scope_reads(self.scope)

    def keeps(self, batch: TokenBatch) -> Tensor:
        return over_scope(batch, self.scope, self._keeps)

    def _keeps(self, batch: TokenBatch) -> Tensor:
        cov = covariance(batch, self.name)
        count = max(1, int(self.fraction * int(batch.mask.sum()) + 1e-9))
        among = batch.mask & (cov >= self.low) & (cov <= self.high)
        return batch.mask & ~drawn(batch.require("logp_old", self.name), among, count)

    def formula(self) -> str:
        return f"not {self.fraction:g} of the tokens, drawn where {self.low:g} <= Cov(log p, A) <= {self.high:g}"


def covariance(batch: TokenBatch, reader: str) -> Tensor:
    """[N, T] float32: Cov of the module's docstring, where the mask is.

    Calculated in float64 and then rounded, so that values that differ by rounding errors alone are ties.
    """
    weight = batch.mask.double()
    logp, advantage = (centred(batch.require(name, reader).double(), weight) for name in ("logp", "advantage"))
    return (logp * advantage * weight).float()
