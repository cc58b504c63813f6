"""The machine as a run sees it: Accelerate's processes, what they tell each other, its device, threads and speed."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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
    broadcast_object_list,
)
from torch import Tensor

from rlzoo.errors import UserError

LONGEST_WAIT = timedelta(hours=6)
"""How long processes wait for each other: the longest responses and the checkpoints of large models take their time."""

_SIZES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE")
_OTHERS = (DistributedType.FSDP, DistributedType.DEEPSPEED, DistributedType.MEGATRON_LM)
_REMEDY = "start N of them with torchrun --nproc_per_node=N -m rlzoo ..."

T = TypeVar("T")


def make_accelerator(precision: str, trackers: Sequence[str] = (), folder: Path | None = None) -> Accelerator:
    """For `model.precision`, with trackers that write into `folder`.

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
                InitProcessGroupKwargs(timeout=LONGEST_WAIT),
            ],
        )
    except ValueError as error:
        raise UserError(f"log.trackers={list(trackers)}: {error}") from None
    check_joined(accelerator.num_processes, os.environ)
    if accelerator.distributed_type in _OTHERS:
        kind = accelerator.distributed_type.value
        raise UserError(f"accelerate is configured for {kind}; start without that, and set train.sharding=fsdp")
    return accelerator


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


def broadcast_from_main(value: bool) -> bool:
    """The main process's value, on all processes: they may see other files, or another time, than it does."""
    return bool(broadcast_object_list([value])[0])


# ---- algorithms, threads and speed -----------------------------------------------------------------------------------


ENVIRONMENT = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "FLASH_ATTENTION_DETERMINISTIC": "1"}
"""What cuBLAS reads as it starts, and transformers' flash attention at each call; torch's own kernel asks torch."""


def prepare_deterministic(asked: bool, device: torch.device) -> None:
    """Tells libraries that read the environment, before any has started.

    Raises UserError on a device other than CUDA, where it has no effect.
    """
    if not asked:
        return
    if device.type != "cuda":
        raise UserError(
            f"train.deterministic=true has no effect on {device.type}: it chooses among the algorithms of CUDA; "
            f"leave it out"
        )
    os.environ.update(ENVIRONMENT)


@contextmanager
def deterministic() -> Iterator[None]:
    """Context in which torch uses deterministic algorithms only, in the backward pass of attention too.

    Raises UserError where an operation has none.
    """
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    except RuntimeError as error:
        if "does not have a deterministic implementation" in str(error):
            operation = str(error).split(maxsplit=1)[0]
            raise UserError(
                f"train.deterministic=true: {operation} has no deterministic algorithm; leave it out"
            ) from error
        raise
    finally:
        torch.use_deterministic_algorithms(before)


@contextmanager
def one_thread() -> Iterator[None]:
    """Context in which torch uses one thread: for small tensors, several would only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


SIZES = {"cpu": (256, 512, 1024), "cuda": (1024, 8192)}
"""Of the matrices whose product is timed, ascending."""
LONG = 0.05
"""Seconds of a product after which no larger one is tried: bfloat16 takes some processors a minute."""


@torch.no_grad()
def measured_peak(device: torch.device, dtype: torch.dtype) -> float:
    """Floating-point operations per second of a square matrix product: the best of a few, of growing sizes."""
    peak = 0.0
    for size in SIZES.get(device.type, SIZES["cpu"]):
        left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
        seconds = min(_seconds(left, right) for _ in range(5))
        peak = max(peak, 2.0 * size**3 / seconds)
        if seconds > LONG:
            break
    return peak


def _seconds(left: Tensor, right: Tensor) -> float:
    _finish(left.device)
    started = time.perf_counter()
    left @ right
    _finish(left.device)
    return time.perf_counter() - started


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
