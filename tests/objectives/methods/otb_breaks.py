"""Mistakes that one could make in the optimal token baseline."""

import torch
from torch import Tensor

from objectives import TokenBatch
from tests.objectives.breaks import Break, always, given, negated, result

PART = "optimal_token_baseline"


def without_squares(batch: TokenBatch) -> tuple[TokenBatch]:
    return (batch.with_fields(sum_pi_squared_old=torch.zeros_like(batch.sum_pi_squared_old)),)


def sure(batch: TokenBatch) -> tuple[TokenBatch]:
    """Every token weighs the same."""
    return (batch.with_fields(logp_old=batch.logp_old * 0, sum_pi_squared_old=batch.sum_pi_squared_old * 0 + 2),)


def one_group(batch: TokenBatch) -> tuple[TokenBatch]:
    return (batch.with_fields(group=batch.group * 0),)


def half(advantage: Tensor, *given: object) -> Tensor:
    return advantage / 2


BREAKS = [
    Break("sign", "worse than the others is good", PART, "of", result(negated)),
    Break("weight", "without the squares of the others", PART, "of", given(without_squares)),
    Break("weight", "every token weighs the same", PART, "of", given(sure)),
    Break("scope", "one group of the whole batch", PART, "of", given(one_group)),
    Break("bound", "half of it", PART, "of", result(half)),
    Break("bound", "a token alone keeps the reward", PART, "alone", always("reward")),
]
