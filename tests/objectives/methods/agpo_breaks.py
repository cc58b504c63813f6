"""Mistakes that one could make in AGPO."""

import torch

from objectives import TokenBatch
from tests.objectives.breaks import Break, given, negated, result


def wrong_for_right(batch: TokenBatch) -> tuple[TokenBatch]:
    return (batch.with_fields(correct=1 - batch.correct),)


def whole_batch(batch: TokenBatch) -> tuple[TokenBatch]:
    return (batch.with_fields(group=batch.group * 0),)


BREAKS = [
    Break("sign", "mean minus reward", "agpo", "of", result(negated)),
    Break("sign", "wrong groups pushed", "agpo", "of", given(wrong_for_right)),
    Break("scope", "over the whole batch", "agpo", "of", given(whole_batch)),
    Break("bound", "half as much", "agpo", "of", result(lambda a, batch: torch.where(a.abs() == 1, a / 2, a))),
]
