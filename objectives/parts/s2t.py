"""STAPO's mask (arXiv:2602.15620): tokens that are rare, in low-entropy places, and rewarded are silenced.

I_it = 0  iff  A_it > 0  and  pi(y_it) < tau_p  and  H_it < the q-quantile of H over the tokens with the first two
"""

import math
from dataclasses import dataclass

from objectives.batch import TokenBatch, over_scope, scope_reads, statistic
from objectives.kinds import Mask
from objectives.lazy import Tensor
from objectives.order import quantile
from objectives.part import parameter
from objectives.zoo import register


@register
@dataclass(frozen=True)
class S2T(Mask):
    """Silences spurious tokens: rare, in low-entropy places, and rewarded."""

    name = "s2t"
    paper = "arXiv:2602.15620"
    troubles = ("spurious_tokens",)
    tau_p: float = parameter(0.002, "[0, 1]", "probability below which a token is rare")
    q: float = parameter(0.75, "[0, 1]", "quantile of the rare rewarded tokens' entropy below which one is spurious")
    scope: str = parameter("minibatch", ("minibatch", "microbatch"), "where the quantile is taken")
    source: str = parameter("current", ("current", "old"), "whose statistics: the current policy's or the rollouts'")
    denominator: str = parameter("kept", ("kept", "all"), "the tokens that the mean counts")

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({statistic("logp", self.source), statistic("entropy", self.source)}) | scope_reads(self.scope)

    @property
    def shrinks_denominator(self) -> bool:
        return self.denominator == "kept"

    def keeps(self, batch: TokenBatch) -> Tensor:
        return over_scope(batch, self.scope, self._keeps)

    def _keeps(self, batch: TokenBatch) -> Tensor:
        logp = batch.require(statistic("logp", self.source), self.name)
        entropy = batch.require(statistic("entropy", self.source), self.name)
        advantage = batch.require("advantage", self.name)
        rare = math.log(self.tau_p) if self.tau_p > 0 else -math.inf
        pool = batch.mask & (advantage > 0) & (logp < rare)
        if not pool.any():
            return batch.mask
        return batch.mask & ~(pool & (entropy < quantile(entropy[pool], self.q)))

    def formula(self) -> str:
        p, entropy = ("p", "H") if self.source == "current" else ("p_old", "H_old")
        where = " in each micro-batch" if self.scope == "microbatch" else ""
        return f"not (A > 0 and {p} < {self.tau_p:g} and {entropy} < their {self.q:.0%} quantile{where})"
