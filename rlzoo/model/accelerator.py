"""Accelerate's view of the machine, and what its processes tell each other."""

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import TypeVar

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import (
    AutocastKwargs,
    DistributedDataParallelKwargs,
    DistributedType,
    InitProcessGroupKwargs,
    broadcast,
)

from rlzoo.errors import UserError

BOTH_MEMORIES = "cuda:nccl,cpu:gloo"
"""How processes tell each other what lies on their GPUs, and what is offloaded from them."""
LONGEST_WAIT = timedelta(hours=6)
"""How long processes wait for each other: the longest responses and the checkpoints of large models take their time."""

_SIZES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE")
_OTHERS = (DistributedType.FSDP, DistributedType.DEEPSPEED, DistributedType.MEGATRON_LM)
_REMEDY = "start N of them with torchrun --nproc_per_node=N -m rlzoo ..."

T = TypeVar("T")


def make_accelerator(
    precision: str, trackers: Sequence[str] = (), folder: Path | None = None, cpu_offload: bool = False
) -> Accelerator:
    """For `model.precision` and `train.cpu_offload`, with trackers that write into `folder`.

    Raises UserError for a tracker that is unknown, and for a launcher whose processes did not join.
    """
    AcceleratorState._reset_state()  # an earlier run of this process may have had another precision
    try:
        accelerator = Accelerator(
            mixed_precision="bf16" if precision == "bfloat16" else "no",
            log_with=list(trackers) or None,
            project_dir=folder,
            cpu=not torch.accelerator.is_available(),  # unless told, Accelerate joins no processes on CPUs
            kwargs_handlers=[
                AutocastKwargs(cache_enabled=False),  # which would keep a cast of every weight until the pass ends
                DistributedDataParallelKwargs(broadcast_buffers=False),  # no model here changes its buffers
                InitProcessGroupKwargs(timeout=LONGEST_WAIT, **_backend(cpu_offload)),
            ],
        )
    except ValueError as error:
        raise UserError(f"log.trackers={list(trackers)}: {error}") from None
    check_joined(accelerator.num_processes, os.environ)
    if accelerator.distributed_type in _OTHERS:
        kind = accelerator.distributed_type.value
        raise UserError(f"accelerate is configured for {kind}; start without that, and set train.sharding=fsdp")
    return accelerator


def _backend(cpu_offload: bool) -> dict[str, str]:
    """What Accelerate, whose choice is NCCL alone, has to be told where processes on GPUs are about to join."""
    joins_gpus = torch.cuda.is_available() and "LOCAL_RANK" in os.environ
    return {"backend": BOTH_MEMORIES} if cpu_offload and joins_gpus else {}


def check_joined(processes: int, environment: Mapping[str, str]) -> None:
    """Refuses a launcher that asked for more processes than joined: every one of them would train by itself.

    Raises UserError. On CPUs `accelerate launch --num_processes 2` starts one process, without a word and without
    saying how many were asked for; it names the main process's address, as it does only where there are several.
    """
    asked = next((int(environment[name]) for name in _SIZES if environment.get(name, "").isdigit()), 0)
    of_accelerate = not asked and "ACCELERATE_USE_CPU" in environment and "MASTER_ADDR" in environment
    if of_accelerate and processes == 1:
        raise UserError(
            "accelerate launch asked for several processes, but without GPUs it starts one; "
            f"{_REMEDY} (one process needs no launcher)"
        )
    if asked > processes:
        joined = "1 process runs by itself" if processes == 1 else f"{processes} joined"
        raise UserError(f"the launcher asked for {asked} processes, but {joined}; {_REMEDY}")


def gathered(accelerator: Accelerator, items: Sequence[T]) -> list[T]:
    """The items of all processes, one process's behind the other's, on the main process; none on the others."""
    if accelerator.num_processes == 1:
        return list(items)
    parts: list[Sequence[T]] = [[]] * accelerator.num_processes
    torch.distributed.gather_object(items, parts if accelerator.is_main_process else None)
    return list(chain(*parts))


def said_by_main(accelerator: Accelerator, value: bool) -> bool:
    """The main process's value, on all processes: they may see other files, or another time, than it does."""
    if accelerator.num_processes == 1:
        return value
    return bool(broadcast(torch.tensor(int(value), device=accelerator.device)))
