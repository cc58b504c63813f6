"""A policy that is sharded from its start: laid out without memory, shared out, and filled from files row by row."""

from collections.abc import Callable
from pathlib import Path

import torch
from accelerate.utils import gather_object
from safetensors import safe_open
from torch import Tensor
from transformers import PreTrainedModel
from transformers.core_model_loading import revert_weight_conversion
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME
from transformers.utils.hub import cached_file

from rlzoo.config import ModelConfig
from rlzoo.errors import UserError, one_line
from rlzoo.files import read_json
from rlzoo.model.policy import Policy, pretrained_model, saved_weights
from rlzoo.model.pretrained import Pretrained, locate
from rlzoo.model.sharding import (
    OVER_ALL,
    Sharding,
    first_layers,
    local_rows,
    materialised,
    resharded,
    rows_here,
    saved_rows,
    shard,
    with_buffers,
)
from rlzoo.model.tokenizer import Tokenizer

ReadRows = Callable[[str], Tensor]
"""Name of a weight -> the rows of it that this process has."""
PLAIN = ("F64", "F32", "F16", "BF16")
"""How safetensors calls the dtypes of weights that are nothing but rounded."""


def load_shared_out(
    config: ModelConfig,
    tokenizer: Tokenizer,
    device: torch.device,
    sharding: Sharding = OVER_ALL,
    learns: bool = True,
) -> Policy:
    """Loads a sharded policy by all processes together; each reads and holds its rows of every weight.

    Raises UserError on all of them.
    """
    model = with_buffers(pretrained_model(config, tokenizer, device_map="meta"))
    policy = Policy(model, tokenizer, config.gradient_checkpointing, config.share_prompts).requires_grad_(learns)
    policy.calculates_as(Policy(first_layers(model), tokenizer, share_prompts=config.share_prompts))
    materialised(shard(policy, sharding), device)
    try:
        fill(policy, locate(config))
    except ValueError as error:
        raise UserError(f"model.name={config.name}: {one_line(error)}") from None
    return policy


@torch.no_grad()
def fill(policy: Policy, source: Pretrained) -> None:
    """Takes over this process's rows of saved weights; all processes together.

    Raises ValueError on all of them for weights that hold what is no number, and if some lack or cannot be read.
    """
    wrong = []
    try:
        _fill_here(policy, source)
    except Exception as error:  # whatever a broken file makes the libraries stumble over
        wrong.append(one_line(error))
    if everywhere := sorted(gather_object(wrong)):
        raise ValueError(everywhere[0])


def _fill_here(policy: Policy, source: Pretrained) -> None:
    weights = resharded(policy).model.state_dict(keep_vars=True)
    read = _rows_of_files(policy.model, source) or _rows_of_model(policy.model, source)
    for name, weight in {id(weight): (name, weight) for name, weight in reversed(weights.items())}.values():
        rows = read(name)
        local_rows(weight).copy_(rows)
        if rows.is_floating_point() and not rows.isfinite().all():
            raise ValueError(f"its weights {name} hold what is no number; take another checkpoint")


def _rows_of_files(model: PreTrainedModel, source: Pretrained) -> ReadRows | None:
    """Reads no more than it is asked for; None for files whose weights are converted as transformers loads them."""
    places = _places(source)
    weights = model.state_dict(keep_vars=True)
    saved: dict[int, str] = {}
    for name, weight in weights.items():
        first, *more = revert_weight_conversion(model, {name: torch.empty(weight.shape, device="meta")})
        if not more and first in places and _is_plain(places[first], first, weight.shape):
            saved.setdefault(id(weight), first)  # of tied ones the files may have either
    if any(id(weight) not in saved for weight in weights.values()):
        return None

    def read(name: str) -> Tensor:
        written = saved[id(weights[name])]
        return saved_rows(places[written], written, weights[name])

    return read


def _rows_of_model(model: PreTrainedModel, source: Pretrained) -> ReadRows:
    """Reads the whole model, as transformers converts it, on every process."""
    parts, weights = model.state_dict(keep_vars=True), saved_weights(type(model), source)
    return lambda name: weights[name][rows_here(parts[name])] if parts[name].dim() else weights[name]


def _places(source: Pretrained) -> dict[str, str]:
    """The file of each saved weight."""
    if single := _file(source, SAFE_WEIGHTS_NAME):
        with safe_open(single, "pt") as file:
            return dict.fromkeys(file.keys(), single)
    index = _file(source, SAFE_WEIGHTS_INDEX_NAME)
    listed = read_json(Path(index).read_text(encoding="utf-8"))["weight_map"] if index else {}
    files = {name: _file(source, name) for name in set(listed.values())}
    return {weight: file for weight, name in listed.items() if (file := files[name])}


def _file(source: Pretrained, name: str) -> str | None:
    try:
        return cached_file(source.path, name, revision=source.options.get("revision"))
    except OSError:
        return None


def _is_plain(file: str, name: str, shape: torch.Size) -> bool:
    """Whether a saved weight is that of the model but for rounding."""
    with safe_open(file, "pt") as opened:
        rows = opened.get_slice(name)
        return tuple(rows.get_shape()) == tuple(shape) and rows.get_dtype() in PLAIN
