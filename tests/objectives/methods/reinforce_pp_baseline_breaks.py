"""Mistakes that one could make in REINFORCE++ with a baseline."""

from torch import Tensor

from objectives import TokenBatch
from tests.objectives.breaks import Break, always, negated, result


def of_raw_rewards(advantage: Tensor, batch: TokenBatch) -> Tensor:
    return advantage / batch.reward.std().clamp(min=1e-4)


BREAKS = [
    Break("sign", "mean minus reward", "center_then_global_norm", "of", result(negated)),
    Break("denominator", "deviation of the raw rewards", "center_then_global_norm", "of", result(of_raw_rewards)),
    Break("scope", "over tokens, not rows", "center_then_global_norm", "over", always("tokens")),
]
