"""Mistakes that one could make in 20-Entropy."""

import math
from typing import Any

from torch import Tensor

from objectives import TokenBatch, largest
from tests.objectives.breaks import Break, always, instead, result, with_negative


def without_ties(kept: Tensor, batch: TokenBatch) -> Tensor:
    return kept & (batch.entropy > batch.entropy[kept].min()) if kept.any() else kept


def top_share_rounded_down(self: Any, batch: TokenBatch) -> Tensor:
    entropy = batch.entropy if self.source == "current" else batch.entropy_old
    return largest(entropy, batch.mask, max(1, math.floor(self.fraction * int(batch.mask.sum()))))


BREAKS = [
    Break("sign", "lowest entropies kept", "top_entropy", "keeps", with_negative("entropy")),
    Break("strictness", "ties dropped", "top_entropy", "keeps", result(without_ties)),
    Break("strictness", "share rounded down", "top_entropy", "keeps", instead(top_share_rounded_down)),
    Break("denominator", "silenced tokens counted", "top_entropy", "denominator", always("all")),
    Break("scope", "threshold per micro-batch", "top_entropy", "scope", always("microbatch")),
    Break("scope", "entropies of the rollouts", "top_entropy", "source", always("old")),
]
