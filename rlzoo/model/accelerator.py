"""Accelerate's view of the machine."""

from collections.abc import Sequence
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs

from rlzoo.errors import UserError


def make_accelerator(precision: str, trackers: Sequence[str] = (), folder: Path | None = None) -> Accelerator:
    """For `model.precision`, with trackers that write into `folder`. Raises UserError for a tracker that is unknown."""
    try:
        return Accelerator(
            mixed_precision="bf16" if precision == "bfloat16" else "no",
            log_with=list(trackers) or None,
            project_dir=folder,
            cpu=not torch.accelerator.is_available(),  # unless told, Accelerate joins no processes on CPUs
            kwargs_handlers=[
                DistributedDataParallelKwargs(broadcast_buffers=False)
            ],  # no model here changes its buffers
        )
    except ValueError as error:
        raise UserError(f"log.trackers={list(trackers)}: {error}") from None
