"""Prepared batches as columns of another trainer's data, one set for each pass, and back again.

Columns are named `zoo_PASS_FIELD`; those of a later pass are there only where they differ from the first one's. The
trace goes with them, and in it the state of controllers.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from objectives import Action, Entry, Objective, Prepared, Trace

_ALWAYS = frozenset({"mask", "length", "group", "selected", "advantage", "policy_mask", "penalty_mask"})
_UNDER_CURRENT = frozenset({"logp", "entropy", "micro_batch"})
_PREPARED = frozenset({"rewards", "sum_pi_squared_old"})
"""What advantages alone are made of."""
_FIRST, _ENTRY = "zoo_0_", "entry:"
GROUP = f"{_FIRST}group"
"""The column of prompt groups, -1 for rows that only fill up."""


def columns_of(objective: Objective, passes: Sequence[Prepared]) -> dict[str, Tensor]:
    """What the plans of the passes read, by column: [n] or [n, T]."""
    read = (objective.needs | _ALWAYS) - _UNDER_CURRENT - _PREPARED
    read |= {f"{name}_old" for name in ("logp", "entropy") if name in objective.needs}
    first, *later = [_columns(batch, read) for batch in passes]
    columns = {f"{_FIRST}{name}": values for name, values in first.items()}
    for number, others in enumerate(later, 1):
        changed = {name: values for name, values in others.items() if values is not first.get(name)}
        columns |= {f"zoo_{number}_{name}": values for name, values in changed.items()}
    return columns


def batch_of(columns: Mapping[str, Tensor], number: int, max_length: int | None) -> Prepared:
    """The batch of a pass, from what `columns_of` made, less the rows that only fill up."""
    fields: dict[str, Any] = {}
    for prefix in (_FIRST, f"zoo_{number}_"):
        fields |= {name.removeprefix(prefix): values for name, values in columns.items() if name.startswith(prefix)}
    real = (fields["group"] >= 0).nonzero()[:, 0]
    fields = {name: values[real] for name, values in fields.items()}
    entries = [_entry(name, fields.pop(name)) for name in sorted(fields) if name.startswith(_ENTRY)]
    return Prepared(**fields, max_length=max_length, trace=Trace(tuple(entries)))


def _columns(batch: Prepared, read: frozenset[str]) -> dict[str, Tensor]:
    columns = {name: values for name, values in batch.tensors().items() if name in read}
    for number, entry in enumerate(batch.trace):
        values = entry.value
        columns[f"{_ENTRY}{number:03d}:{entry.action}:{entry.part}:{entry.name}"] = (
            values if values.dim() else values.expand(len(batch.mask))
        )
    return columns


def _entry(column: str, values: Tensor) -> Entry:
    action, part, name = column.removeprefix(_ENTRY).split(":")[1:]
    if action == Action.STATE:  # a number, which every row says
        values = values[0].cpu() if len(values) else torch.zeros((), dtype=torch.float64)
    return Entry(part, Action(action), values, name)
