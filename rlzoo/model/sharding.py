"""Weights sharded over processes (FSDP2): each has its rows of every weight; whole ones from them, one at a time."""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from transformers.modeling_layers import GradientCheckpointingLayer

Module = TypeVar("Module", bound=nn.Module)


def shard(module: Module) -> Module:
    """Leaves to each process its part of the weights, their gradients and moments; layers are gathered as they run.

    Weights and sums of gradients stay float32, so that training is that of whole weights. Those on the meta device
    stay there.
    """
    precision = MixedPrecisionPolicy(reduce_dtype=torch.float32)
    for layer in module.modules():
        if isinstance(layer, GradientCheckpointingLayer):
            fully_shard(layer, mp_policy=precision)
    fully_shard(module, mp_policy=precision)
    return module


def is_sharded(module: nn.Module) -> bool:
    """Whether this process has but a part of the weights."""
    return isinstance(module, FSDPModule)


def whole(tensor: Tensor) -> Tensor:
    """The whole of a sharded tensor, which all processes must ask for together; another as it is."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def described(tensor: Tensor) -> Tensor:
    """One of the same shape and dtype as the whole tensor, without memory."""
    return torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")


def rows_here(like: Tensor) -> slice:
    """Which rows of a tensor this process has: its part of one that is sharded, all of another."""
    if not isinstance(like, DTensor):
        return slice(None)
    most = -(-len(like) // like.device_mesh.size())
    first = min(like.device_mesh.get_local_rank() * most, len(like))
    return slice(first, min(first + most, len(like)))


def saved_rows(path: Path | str, name: str, like: Tensor) -> Tensor:
    """The rows of a saved tensor of the shape of `like` that this process has, nothing else being read.

    The file is opened anew each time: what was read from one that stays open counts as this process's memory.
    """
    with safe_open(path, "pt") as file:
        return file.get_slice(name)[rows_here(like)] if like.dim() else file.get_tensor(name)


def here(tensor: Tensor) -> Tensor:
    """The rows of a tensor that this process has, in the memory that the tensor has."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def sharded_as(rows: Tensor, like: Tensor) -> Tensor:
    """A tensor of the size of `like` of which this process has these rows; the rows if `like` is not sharded."""
    if not isinstance(like, DTensor):
        return rows
    mesh, placements = like.device_mesh, like.placements
    return DTensor.from_local(rows, mesh, placements, run_check=False, shape=like.shape, stride=like.stride())


def resharded(module: Module) -> Module:
    """The same: after a forward pass without a backward one the outermost weights are still gathered."""
    for part in module.modules():
        if isinstance(part, FSDPModule):
            part.reshard()
    return module


def whole_parameters(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Every parameter whole, by every name that it has, one at a time.

    All processes must go through all of them.
    """
    for name, parameter in resharded(module).named_parameters(remove_duplicate=False):
        weight = whole(parameter.detach()) if isinstance(parameter, DTensor) else parameter
        yield name, weight
