"""Weights sharded over processes (FSDP2): each has its rows of every weight; whole ones from them, one at a time.

And models whose weights take no memory yet, which are sharded before they are filled.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
from accelerate import init_empty_weights
from safetensors import safe_open
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.debug import _clear_sharding_prop_cache
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from rlzoo.config import TrainConfig

Module = TypeVar("Module", bound=nn.Module)
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Sharding:
    """Who shares a copy of the weights."""

    mesh: DeviceMesh | None = None
    """[P] processes that share one copy; or [copies, P] (HSDP). None is all processes."""


OVER_ALL = Sharding()
"""One copy for all processes."""


def sharding_of(train: TrainConfig, processes: int, device: torch.device) -> Sharding | None:
    """How the models of a run are shared out; None if each process has them whole. All processes ask together."""
    if train.sharding == "none" or processes == 1:
        return None
    _clear_sharding_prop_cache()  # which takes the mesh of an earlier run of this process, and its group, for this one
    copies = processes // (train.shards or processes)
    if copies == 1:
        return Sharding(init_device_mesh(device.type, (processes,)))
    mesh = init_device_mesh(device.type, (copies, processes // copies), mesh_dim_names=("copies", "shards"))
    return Sharding(mesh)


def shard(module: Module, sharding: Sharding = OVER_ALL) -> Module:
    """Leaves to each process its part of the weights, their gradients and moments; layers are gathered as they run.

    Weights and sums of gradients stay float32, so that training is that of whole weights. Those on the meta device
    stay there.
    """
    precision = MixedPrecisionPolicy(reduce_dtype=torch.float32)
    units: list[nn.Module] = [part for part in module.modules() if isinstance(part, GradientCheckpointingLayer)]
    units.append(module)
    for unit in units:
        fully_shard(unit, mesh=sharding.mesh, mp_policy=precision)
    return module


def is_sharded(module: nn.Module) -> bool:
    """Whether this process has but a part of the weights."""
    return isinstance(module, FSDPModule)


def add_up_copies(module: nn.Module, is_last: bool) -> None:
    """Whether the next backward pass adds up the gradients of all copies: that of the last micro-batch does.

    All processes say the same.
    """
    if isinstance(module, FSDPModule):
        module.set_requires_all_reduce(is_last)


def full_tensor(tensor: Tensor) -> Tensor:
    """The whole of a sharded tensor; another as it is. All processes must ask for it together."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def rows_here(like: Tensor) -> slice:
    """Which rows of a tensor this process has: its part of one that is sharded, all of another."""
    if not isinstance(like, DTensor):
        return slice(None)
    among = next(dimension for dimension, placement in enumerate(like.placements) if placement.is_shard())
    most = -(-len(like) // like.device_mesh.size(among))
    first = min(like.device_mesh.get_local_rank(among) * most, len(like))
    return slice(first, min(first + most, len(like)))


def saved_rows(path: Path | str, name: str, like: Tensor) -> Tensor:
    """The rows of a saved tensor of the shape of `like` that this process has, nothing else being read.

    The file is opened for each tensor: what was read from a file that stays open counts as this process's memory.
    """
    with safe_open(path, "pt") as file:
        return file.get_slice(name)[rows_here(like)] if like.dim() else file.get_tensor(name)


def local_rows(tensor: Tensor) -> Tensor:
    """The rows of a tensor that this process has, in the memory that the tensor has."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def sharded_as(rows: Tensor, like: Tensor) -> Tensor:
    """Makes this process's rows a tensor sharded as `like`; returns the rows if `like` is not sharded.

    They stay in the memory in which they are.
    """
    if not isinstance(like, DTensor):
        return rows
    shape = torch.Size([len(like), *rows.shape[1:]])
    stride = torch.empty(shape, device="meta").stride()
    made = DTensor.from_local(rows, like.device_mesh, like.placements, run_check=False, shape=shape, stride=stride)
    return made.to(rows.device)


def resharded(module: Module) -> Module:
    """Frees the outermost weights, which stay gathered after a forward pass without a backward one."""
    for part in module.modules():
        if isinstance(part, FSDPModule):
            part.reshard()
    return module


def whole_parameters(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Every parameter whole, by every name that it has, one at a time.

    All processes must go through all of them.
    """
    for name, parameter in resharded(module).named_parameters(remove_duplicate=False):
        weight = full_tensor(parameter.detach()) if isinstance(parameter, DTensor) else parameter
        yield name, weight


# ---- models without memory for their weights -------------------------------------------------------------------------


RANDOM_ROWS = 2**14
"""Rows of a weight that a small model has random values in: more than a trial reads of the embedding."""


def outline(model: PreTrainedModel) -> PreTrainedModel:
    """A model of the same architecture whose weights lie on the meta device; its buffers are there."""
    with init_empty_weights(include_buffers=False):
        made: PreTrainedModel = type(model)(copy.deepcopy(model.config))
    made.tie_weights()
    return made.eval()


def with_buffers(model: PreTrainedModel) -> PreTrainedModel:
    """Gives a model whose weights lie on the meta device the buffers that are in no file; returns it."""
    for name, buffer in outline(model).named_buffers():
        owner, _, attribute = name.rpartition(".")
        model.get_submodule(owner)._buffers[attribute] = buffer
    return model


@torch.no_grad()
def first_layers(model: PreTrainedModel) -> PreTrainedModel:
    """A small model of the same architecture on the CPU: few layers, each kind among them, and random weights."""
    made = outline(model)
    kinds = list(getattr(made.config.get_text_config(), "layer_types", None) or ["any"])
    count = 1 + max(kinds.index(kind) for kind in kinds)
    for module in list(made.modules()):
        for name, layers in list(module.named_children()):
            if isinstance(layers, nn.ModuleList) and any(
                isinstance(layer, GradientCheckpointingLayer) for layer in layers
            ):
                setattr(module, name, layers[:count])
    generator = torch.Generator().manual_seed(0)
    for weight in materialised(made, torch.device("cpu")).parameters():
        if weight.dim() < 2:
            weight.fill_(1.0)  # norms, which have to pass on what other layers would otherwise not see
        else:
            weight[:RANDOM_ROWS].normal_(std=weight.shape[-1] ** -0.5, generator=generator)
    return made


@torch.no_grad()
def materialised(module: Module, device: torch.device) -> Module:
    """Replaces a module's weights on the meta device by zeros on `device`; returns it.

    Weights that are tied stay so, which they do not by torch's `to_empty`.
    """
    weights = module.state_dict(keep_vars=True)
    made = {
        id(weight): nn.Parameter(torch.zeros_like(weight, device=device), requires_grad=weight.requires_grad)
        for weight in weights.values()
        if weight.device.type == "meta"
    }
    module.load_state_dict({name: made.get(id(weight), weight) for name, weight in weights.items()}, assign=True)
    return module
