"""Models without memory for their weights, and memory for them."""

import copy
from typing import TypeVar

import torch
from accelerate import init_empty_weights
from torch import nn
from transformers import PreTrainedModel

Module = TypeVar("Module", bound=nn.Module)


def outline(model: PreTrainedModel) -> PreTrainedModel:
    """A model of the same architecture whose weights lie on the meta device; its buffers are there."""
    with init_empty_weights(include_buffers=False):
        made: PreTrainedModel = type(model)(copy.deepcopy(model.config))
    made.tie_weights()
    return made.eval()


def with_buffers(model: PreTrainedModel) -> PreTrainedModel:
    """The same model, whose weights lie on the meta device, with the buffers that are in no file."""
    for name, buffer in outline(model).named_buffers():
        owner, _, own = name.rpartition(".")
        model.get_submodule(owner)._buffers[own] = buffer
    return model


@torch.no_grad()
def materialised(module: Module, device: torch.device) -> Module:
    """The same, with memory on the device for its weights of the meta device; what is in it is anything.

    Weights that are tied stay so, which they do not by torch's `to_empty`.
    """
    weights = module.state_dict(keep_vars=True)
    made = {
        id(weight): nn.Parameter(torch.empty_like(weight, device=device), requires_grad=weight.requires_grad)
        for weight in weights.values()
        if weight.device.type == "meta"
    }
    module.load_state_dict({name: made.get(id(weight), weight) for name, weight in weights.items()}, assign=True)
    return module
