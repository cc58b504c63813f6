"""Models without memory for their weights, and memory for them."""

import copy
from typing import TypeVar

import torch
from accelerate import init_empty_weights
from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

Module = TypeVar("Module", bound=nn.Module)
RANDOM_ROWS = 2**14
"""Rows of a weight that a small model has random values in: more than a trial reads of the embedding."""


def outline(model: PreTrainedModel) -> PreTrainedModel:
    """A model of the same architecture whose weights lie on the meta device; its buffers are there."""
    with init_empty_weights(include_buffers=False):
        made: PreTrainedModel = type(model)(copy.deepcopy(model.config))
    made.tie_weights()
    return made.eval()


def with_buffers(model: PreTrainedModel) -> PreTrainedModel:
    """The same model, whose weights lie on the meta device, with the buffers that are in no file."""
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
    """The same, with zeros on the device for its weights of the meta device.

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
