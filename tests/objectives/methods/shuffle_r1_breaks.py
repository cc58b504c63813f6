"""Mistakes that one could make in Shuffle-R1's pairs."""

import torch
from torch import Tensor

from objectives import TokenBatch
from tests.objectives.breaks import Break, always, given, result, with_negative

PART = "extreme_pairs"


def one_group(batch: TokenBatch) -> tuple[TokenBatch]:
    return (batch.with_fields(group=torch.zeros_like(batch.group)),)


def the_others(selected: Tensor, batch: TokenBatch) -> Tensor:
    return ~selected


def the_best(selected: Tensor, batch: TokenBatch) -> Tensor:
    return selected & (batch.reward > batch.reward.mean())


BREAKS = [
    Break("sign", "ties by the largest lot", PART, "selects", with_negative("lot")),
    Break("scope", "pairs of the whole batch", PART, "selects", given(one_group)),
    Break("scope", "the middle", PART, "selects", result(the_others)),
    Break("weight", "without the worst", PART, "selects", result(the_best)),
    Break("bound", "another share", PART, "share", always(0.75)),
]
