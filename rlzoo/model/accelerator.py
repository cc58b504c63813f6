"""Accelerate's view of the machine, and what its processes tell each other."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import TypeVar

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs, InitProcessGroupKwargs, broadcast

from rlzoo.errors import UserError

LONGEST_WAIT = timedelta(hours=6)
"""How long processes wait for each other: the longest responses and the checkpoints of large models take their time."""

T = TypeVar("T")


def make_accelerator(precision: str, trackers: Sequence[str] = (), folder: Path | None = None) -> Accelerator:
    """For `model.precision`, with trackers that write into `folder`. Raises UserError for a tracker that is unknown."""
    try:
        return Accelerator(
            mixed_precision="bf16" if precision == "bfloat16" else "no",
            log_with=list(trackers) or None,
            project_dir=folder,
            cpu=not torch.accelerator.is_available(),  # unless told, Accelerate joins no processes on CPUs
            kwargs_handlers=[
                DistributedDataParallelKwargs(broadcast_buffers=False),  # no model here changes its buffers
                InitProcessGroupKwargs(timeout=LONGEST_WAIT),
            ],
        )
    except ValueError as error:
        raise UserError(f"log.trackers={list(trackers)}: {error}") from None


def gathered(accelerator: Accelerator, items: Sequence[T]) -> list[T]:
    """The items of all processes, one process's behind the other's, on the main process; none on the others."""
    if accelerator.num_processes == 1:
        return list(items)
    parts: list[Sequence[T]] = [[]] * accelerator.num_processes
    torch.distributed.gather_object(items, parts if accelerator.is_main_process else None)
    return list(chain(*parts))


def said_by_main(accelerator: Accelerator, value: bool) -> bool:
    """The main process's value, on all processes: they may see other files than it does."""
    return bool(broadcast(torch.tensor(int(value), device=accelerator.device)))
