"""A prepared batch as columns of verl's data, one set for each pass, and back again from all ranks.

Columns are named `zoo_PASS_FIELD`; those of a later pass are there only where they differ from the first one's.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor
from verl.workers.utils.padding import response_to_nested

from objectives import Objective, TokenBatch

_ALWAYS = frozenset({"mask", "length", "group", "advantage", "policy_mask", "penalty_mask"})
_UNDER_CURRENT = frozenset({"logp", "entropy", "micro_batch"})
_FIRST, _TOUCHED = "zoo_0_", "touched "
GROUP = f"{_FIRST}group"
"""The column of prompt groups, -1 for rows that only fill up."""
LIMIT = "zoo_max_length"
"""The name under which the limit of response tokens travels beside the columns."""


def columns_of(objective: Objective, passes: Sequence[TokenBatch]) -> dict[str, Tensor]:
    """What the plans of the passes read, by column: [n] or [n, T]."""
    read = (objective.needs | _ALWAYS) - _UNDER_CURRENT
    read |= {f"{name}_old" for name in ("logp", "entropy") if name in objective.needs}
    first, *later = [_columns(batch, read) for batch in passes]
    columns = {f"{_FIRST}{name}": values for name, values in first.items()}
    for number, others in enumerate(later, 1):
        changed = {name: values for name, values in others.items() if values is not first.get(name)}
        columns |= {f"zoo_{number}_{name}": values for name, values in changed.items()}
    return columns


def batch_of(columns: Mapping[str, Tensor], number: int, max_length: int | None) -> TokenBatch:
    """The batch of a pass, from what `columns_of` made."""
    fields: dict[str, Any] = {}
    for prefix in (_FIRST, f"zoo_{number}_"):
        fields |= {name.removeprefix(prefix): values for name, values in columns.items() if name.startswith(prefix)}
    touched = {name: fields.pop(name) for name in list(fields) if name.startswith(_TOUCHED)}
    return TokenBatch(
        **fields,
        max_length=max_length,
        touched={name.removeprefix(_TOUCHED): tokens for name, tokens in touched.items()},
    )


def columns_in(data: TensorDict) -> dict[str, Tensor]:
    """[n] or [n, t] the columns that verl's data has."""
    return {name: padded(values) for name, values in data.items() if _is_column(name)}


def without_columns(data: TensorDict) -> TensorDict:
    """The rest of it."""
    return data.exclude(*(name for name, _ in data.items() if _is_column(name)))


def spread(columns: Mapping[str, Tensor], real: Tensor, response_mask: Tensor) -> dict[str, Tensor]:
    """Columns of rollouts -> those of verl's rows, of which some [n] bool are `real` and others only fill up: token
    columns nested as the responses are, flags as bytes.
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
    width = torch.tensor(widest, device=columns[GROUP].device)
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


def _columns(batch: TokenBatch, read: frozenset[str]) -> dict[str, Tensor]:
    touched = {f"{_TOUCHED}{name}": tokens for name, tokens in batch.touched.items()}
    return {name: values for name, values in batch.tensors().items() if name in read} | touched


def _is_column(name: str) -> bool:
    return name.startswith("zoo_") and name != LIMIT
