"""Rows cut into micro-batches under a budget of token positions."""

from collections.abc import Sequence

import torch
from torch import Tensor


def cut(lengths: Sequence[int], budget: int) -> list[Tensor]:
    """Positions of rows, longest first, so that rows x longest row of each micro-batch stays within the budget.

    A row longer than the budget gets a micro-batch of its own.
    """
    order = sorted(range(len(lengths)), key=lambda row: (-lengths[row], row))
    batches: list[list[int]] = []
    for row in order:
        if not batches or (len(batches[-1]) + 1) * lengths[batches[-1][0]] > budget:
            batches.append([])
        batches[-1].append(row)
    return [torch.tensor(rows) for rows in batches]
