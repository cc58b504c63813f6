"""STAPO (arXiv:2602.15620, v4, eq. of section 4): JustRL without the gradient of spurious tokens.

    J = E [ 1 / sum I_it  sum_i sum_t I_it min( r A, clip(r, 0.8, 1.28) A ) ]
    I_it = 0  iff  A_i > 0  and  pi(y_it) < tau_p  and  H_it < tau_h,
    tau_h = the q-quantile of H over the tokens with the first two

Probability and entropy are the current policy's (Algorithm 1), the quantile is taken over the mini-batch, interpolated
linearly, and the comparison is strict: an empty pool, or a pool of one, silences nothing.
Deviations: the sign is that of the weighted advantage; a token whose weight is zero has none and is in no pool.
Open: the printed mask writes pi without saying whose; source=old takes the rollouts' statistics and saves a forward.
Variant v1 (February 2026): q = 0.8; what its quantile runs over was not spelled out and is read as in v4.
Variant authors: no code is published; this is the mask on JustRL's code base, of which it has all other settings.
"""

import math
from dataclasses import dataclass

from torch import Tensor

from objectives.batch import TokenBatch, over_scope, scope_reads, statistic
from objectives.kinds import Mask
from objectives.methods.justrl import JUSTRL, JUSTRL_AUTHORS
from objectives.order import quantile
from objectives.part import parameter
from objectives.zoo import recipe, register

PAPER = "arXiv:2602.15620"


@register
@dataclass(frozen=True)
class S2T(Mask):
    """Silences spurious tokens: rare, in low-entropy places, and rewarded."""

    name = "s2t"
    paper = PAPER
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
        return f"not (A > 0 and p < {self.tau_p:g} and H < their {self.q:.0%} quantile)"


recipe(
    "stapo",
    paper=PAPER,
    summary="JustRL with spurious tokens silenced: rare, low-entropy, rewarded",
    variants={
        "paper": (*JUSTRL, S2T()),
        "v1": (*JUSTRL, S2T(q=0.8)),
        "authors": (*JUSTRL_AUTHORS, S2T()),
    },
    contribution=("s2t",),
    doc=__doc__,
)
