"""Weights sharded over processes (FSDP2): whole ones from them, one at a time, and back."""

from collections.abc import Iterator
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from transformers.modeling_layers import GradientCheckpointingLayer

Sharded = TypeVar("Sharded", bound=nn.Module)


def shard(module: Sharded) -> Sharded:
    """Leaves to each process its part of the weights, their gradients and moments; layers are gathered as they run.

    Weights and sums of gradients stay float32, so that training is that of whole weights.
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


def sharded_as(tensor: Tensor, like: Tensor) -> Tensor:
    """The part of a tensor that this process has of `like`, which all have whole; as it is if `like` is not sharded."""
    if not isinstance(like, DTensor) or tensor.shape != like.shape:
        return tensor
    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements, src_data_rank=None)


def resharded(module: Sharded) -> Sharded:
    """The same: after a forward pass without a backward one the outermost weights are still gathered."""
    for part in module.modules():
        if isinstance(part, FSDPModule):
            part.reshard()
    return module


def whole_parameters(module: nn.Module, every_name: bool = True, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    """Every parameter whole, by `every_name` that it has or the first, less a `prefix`, one at a time.

    All processes must go through all of them.
    """
    for name, parameter in resharded(module).named_parameters(remove_duplicate=not every_name):
        weight = whole(parameter.detach()) if isinstance(parameter, DTensor) else parameter
        yield name.removeprefix(prefix), weight
