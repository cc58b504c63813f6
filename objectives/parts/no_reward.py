"""No advantage by reward: what else is in the objective says alone what is learnt, as a teacher in `opd`.

A_i = 0
"""

from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.kinds import Advantage
from objectives.lazy import Tensor, torch
from objectives.zoo import register


@register
@dataclass(frozen=True)
class NoReward(Advantage):
    """No response is better than another: rewards are not looked at."""

    name = "no_reward"
    paper = "doi:10.64434/tml.20251026"
    reads = frozenset[str]()

    def of(self, batch: TokenBatch) -> Tensor:
        kind = batch.mask.dtype if batch.reward is None else batch.reward.dtype
        return torch.zeros(len(batch.mask), dtype=torch.promote_types(kind, torch.float32), device=batch.mask.device)

    def formula(self) -> str:
        return "A = 0"
