"""Mistakes that one could make in STAPO."""

import math
from typing import Any

from torch import Tensor

from objectives import TokenBatch, quantile
from tests.objectives.breaks import Break, Wrong, always, instead, with_negative


def spurious(over_all: bool = False, ties: bool = False) -> Wrong:
    """STAPO's mask with a quantile over all tokens, or with tokens on the quantile silenced."""

    def keeps(self: Any, batch: TokenBatch) -> Tensor:
        pool = batch.mask & (batch.advantage > 0) & (batch.logp < math.log(self.tau_p))
        if not pool.any():
            return batch.mask
        boundary = quantile(batch.entropy[batch.mask if over_all else pool], self.q)
        return batch.mask & ~(pool & (batch.entropy <= boundary if ties else batch.entropy < boundary))

    return instead(keeps)


BREAKS = [
    Break("sign", "punished tokens silenced", "s2t", "keeps", with_negative("advantage")),
    Break("sign", "high entropies silenced", "s2t", "keeps", with_negative("entropy")),
    Break("strictness", "ties at the quantile silenced", "s2t", "keeps", spurious(ties=True)),
    Break("denominator", "silenced tokens counted", "s2t", "denominator", always("all")),
    Break("scope", "quantile over all tokens", "s2t", "keeps", spurious(over_all=True)),
    Break("scope", "quantile per micro-batch", "s2t", "scope", always("microbatch")),
    Break("scope", "statistics of the rollouts", "s2t", "source", always("old")),
]
