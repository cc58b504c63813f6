"""Mistakes that one could make in Lite PPO."""

import torch
from torch import Tensor

from objectives import TokenBatch
from tests.objectives.breaks import Break, always, given, negated, per_group, result


def as_in_a_batch_of_one_more(advantage: Tensor, batch: TokenBatch) -> Tensor:
    there = torch.isin(batch.group, batch.group[batch.mask.any(1)]).sum().clamp(min=2)
    return advantage * (there / (there - 1)).sqrt()


BREAKS = [
    Break("sign", "mean minus reward", "center_batch_std", "of", result(negated)),
    Break("denominator", "ddof 0", "center_batch_std", "of", result(as_in_a_batch_of_one_more)),
    Break("denominator", "1e-6 added to the std", "center_batch_std", "eps", always(1e-6)),
    Break(
        "scope",
        "deviation of the group as well",
        "center_batch_std",
        "advantage",
        per_group(lambda x: (x - x.mean()) / (x.std() + 1e-6)),
    ),
    Break(
        "scope",
        "mean of the whole batch",
        "center_batch_std",
        "of",
        given(lambda batch: (batch.with_fields(group=batch.group * 0),)),
    ),
]
