"""The columns of a prepared batch in verl's data, nested as its responses are, and gathered from all ranks."""

from collections.abc import Mapping
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor
from verl.workers.utils.padding import response_to_nested

from objectives.adapters.columns import GROUP

LIMIT = "zoo_max_length"
"""The name under which the limit of response tokens travels beside the columns."""


def columns_in(data: TensorDict) -> dict[str, Tensor]:
    """[n] or [n, t] the columns that verl's data has."""
    return {name: padded(values) for name, values in data.items() if _is_column(name)}


def without_columns(data: TensorDict) -> TensorDict:
    """The rest of it."""
    return data.exclude(*(name for name, _ in data.items() if _is_column(name)))


def spread(columns: Mapping[str, Tensor], real: Tensor, response_mask: Tensor) -> dict[str, Tensor]:
    """Columns of rollouts -> columns of verl's rows: token columns nested like the responses, flags as bytes.

    `real` [n] bool marks the rows that are not padding.
    """
    made = {}
    for name, values in columns.items():
        whole = values.new_full((len(real), *values.shape[1:]), -1 if name == GROUP else 0)
        whole[real] = values
        whole = whole.to(torch.uint8) if whole.dtype == torch.bool else whole
        made[name] = response_to_nested(whole, response_mask) if whole.dim() == 2 else whole
    return made


def everywhere(columns: Mapping[str, Tensor], group: Any) -> dict[str, Tensor]:
    """[n] and [n, t] of each rank -> [N] and [N, T] of all, rank after rank; all ranks have equally many rows."""
    widest = max(values.shape[1] for values in columns.values() if values.dim() == 2)
    width = torch.tensor(widest, device=next(iter(columns.values())).device)
    torch.distributed.all_reduce(width, torch.distributed.ReduceOp.MAX, group=group)
    gathered = {}
    for name in sorted(columns):
        values = columns[name]
        if values.dim() == 2:
            values = torch.nn.functional.pad(values, (0, int(width) - values.shape[1]))
        parts = [torch.empty_like(values) for _ in range(torch.distributed.get_world_size(group))]
        torch.distributed.all_gather(parts, values.contiguous(), group=group)
        together = torch.cat(parts)
        gathered[name] = together.bool() if together.dtype == torch.uint8 else together
    return gathered


def padded(values: Tensor) -> Tensor:
    """[n, T] of what verl has as nested or padded."""
    return values.to_padded_tensor(0) if values.is_nested else values


def _is_column(name: str) -> bool:
    return name.startswith("zoo_") and name != LIMIT
