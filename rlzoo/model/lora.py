"""Low-rank adapters (Hu et al., arXiv:2106.09685), by peft: what is trained of a model too large to train whole."""

import copy
import warnings
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from rlzoo.config.sections import LoraConfig
from rlzoo.errors import UserError, one_line

_ADAPTER = "default"
"""The only one, by peft's usual name."""

Module = TypeVar("Module", bound=nn.Module)


def add_adapters(model: PreTrainedModel, config: LoraConfig) -> None:
    """Puts adapters that change nothing yet beside the model's linear layers, and freezes all else.

    Raises UserError if no layer has one of the names of `model.lora.targets`, and for the head, which is calculated
    without the layer.
    """
    import peft

    alpha: Any = 2.0 * config.rank if config.alpha is None else config.alpha
    targets: Any = list(config.targets) or "all-linear"
    settings: Any = peft.LoraConfig(r=config.rank, lora_alpha=alpha, target_modules=targets)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # what peft settles by itself
            peft.inject_adapter_in_model(settings, model)
    except ValueError as error:
        names = {name.rpartition(".")[2] for name, layer in model.named_modules() if isinstance(layer, nn.Linear)}
        raise UserError(
            f"model.lora.targets={list(config.targets)}: {one_line(error).partition('. ')[0]}; there are "
            f"{', '.join(sorted(names))}"
        ) from None
    if not isinstance(model.get_output_embeddings(), nn.Linear):
        raise UserError(f"model.lora.targets={list(config.targets)}: the head cannot have an adapter; leave it out")


def adapters(module: nn.Module) -> dict[str, Tensor]:
    """The weights of its adapters by name, none if it has no adapters."""
    return {name: parameter.detach() for name, parameter in module.named_parameters() if ".lora_" in name}


@torch.no_grad()
def set_adapters(module: nn.Module, weights: dict[str, Tensor]) -> None:
    """Takes over what `adapters` gave. Raises UserError for what it cannot have given."""
    current = adapters(module)
    if current.keys() != weights.keys():
        raise UserError("model.lora: the checkpoint has adapters for other layers; resume with the settings of the run")
    for name, weight in weights.items():
        if weight.shape != current[name].shape or not weight.is_floating_point() or not weight.isfinite().all():
            raise UserError(f"{name} has another shape, or holds what is no number")
        current[name].copy_(weight)


@torch.no_grad()
def without_adapters(module: Module, merged: bool, memo: dict[int, Any]) -> Module:
    """A copy with the plain layers, their adapters `merged` into them or left out; all other weights are shared."""
    shared = {id(parameter): parameter for parameter in module.parameters()}
    plain = copy.deepcopy(module, {**memo, **shared})
    for name, layer in list(plain.named_modules()):
        if isinstance(getattr(layer, "lora_A", None), nn.ModuleDict):
            base: Any = layer.get_base_layer()
            if merged:
                weight = base.weight + layer.get_delta_weight(_ADAPTER).to(base.weight.dtype)
                base.weight = nn.Parameter(weight, requires_grad=False)
            parent, _, child = name.rpartition(".")
            setattr(plain.get_submodule(parent), child, base)
    return plain
