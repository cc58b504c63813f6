"""Clip-Cov's mask (Cui et al., arXiv:2505.22617): a few tokens of large covariance are silenced, drawn by lot.

Cov_t = (log pi(y_t) - mean log pi) (A_t - mean A)        means over the response tokens of the mini-batch

Tokens that the surrogate clips already take no part in the draw.
"""

from dataclasses import dataclass

from objectives.batch import Prepared, over_scope, scope_reads
from objectives.groups import centred
from objectives.kinds import Mask
from objectives.lazy import Tensor
from objectives.order import drawn
from objectives.part import parameter
from objectives.zoo import register


@register
@dataclass(frozen=True)
class ClipCov(Mask):
    """Silences tokens drawn among those whose log-prob and advantage vary together."""

    name = "clip_cov"
    paper = "arXiv:2505.22617"
    troubles = ("entropy_collapse",)
    fraction: float = parameter(2e-4, "(0, 1]", "rho, share of the tokens that is silenced")
    low: float = parameter(1.0, "(-inf, inf)", "covariance above which a token may be drawn")
    high: float = parameter(5.0, "(-inf, inf)", "covariance below which a token may be drawn")
    scope: str = parameter("minibatch", ("minibatch", "microbatch"), "where means and share are taken")
    shrinks_denominator = False
    spares_clipped = True

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"logp", "lot"}) | scope_reads(self.scope)

    def keeps(self, batch: Prepared) -> Tensor:
        return over_scope(batch, self.scope, self._keeps)

    def _keeps(self, batch: Prepared) -> Tensor:
        cov = covariance(batch, self.name)
        count = max(1, int(self.fraction * int(batch.mask.sum()) + 1e-9))
        among = batch.mask & ~batch.require("clipped", self.name) & (cov > self.low) & (cov < self.high)
        return batch.mask & ~drawn(batch.require("lot", self.name), among, count)

    def formula(self) -> str:
        scope = " of each micro-batch" if self.scope == "microbatch" else ""
        where = f"{self.low:g} < Cov(log p, A) < {self.high:g} and the clip is idle"
        return f"not {self.fraction:g} of the tokens{scope}, drawn where {where}"


def covariance(batch: Prepared, reader: str) -> Tensor:
    """[N, T] float32: Cov of the module's docstring, where the mask is.

    Calculated in float64 and then rounded, so that values that differ by rounding errors alone are ties.
    """
    weight = batch.mask.double()
    logp, advantage = (centred(batch.require(name, reader).double(), weight) for name in ("logp", "advantage"))
    return (logp * advantage * weight).float()
