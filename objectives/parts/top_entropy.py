"""20-Entropy's mask (Wang et al., arXiv:2506.01939): only the tokens of highest entropy are trained on.

    I_it = 1[ H_it >= tau ],   tau keeps the top `fraction` of all response tokens, whatever their advantage

Equal prefixes have equal entropies, and ties at tau are all kept, so that small batches keep more than the share.
"""

import math
from dataclasses import dataclass

from objectives.batch import TokenBatch, over_scope, scope_reads, statistic
from objectives.kinds import Mask
from objectives.lazy import Tensor
from objectives.order import largest
from objectives.part import parameter
from objectives.zoo import register


@register
@dataclass(frozen=True)
class TopEntropy(Mask):
    """Keeps the `fraction` of response tokens with the highest entropy."""

    name = "top_entropy"
    paper = "arXiv:2506.01939"
    troubles = ("credit",)
    fraction: float = parameter(0.2, "(0, 1]", "share of the response tokens that is kept")
    scope: str = parameter("minibatch", ("minibatch", "microbatch"), "where the share is taken")
    source: str = parameter("current", ("current", "old"), "whose entropy: the current policy's or the rollouts'")
    denominator: str = parameter("kept", ("kept", "all"), "the tokens that the mean counts")

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({statistic("entropy", self.source)}) | scope_reads(self.scope)

    @property
    def shrinks_denominator(self) -> bool:
        return self.denominator == "kept"

    def keeps(self, batch: TokenBatch) -> Tensor:
        return over_scope(batch, self.scope, self._keeps)

    def _keeps(self, batch: TokenBatch) -> Tensor:
        entropy = batch.require(statistic("entropy", self.source), self.name)
        kept = math.ceil(self.fraction * int(batch.mask.sum()) - 1e-9)
        return largest(entropy, batch.mask, max(1, kept))

    def formula(self) -> str:
        entropy = "H" if self.source == "current" else "H_old"
        where = " of each micro-batch" if self.scope == "microbatch" else ""
        return f"{entropy} among the top {self.fraction:.0%} of the tokens{where}"
