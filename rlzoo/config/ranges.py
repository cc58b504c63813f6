"""What an experiment may be: each key within its range, and what keys say together."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from rlzoo.config.decoding import read_decodings
from rlzoo.config.key_range import check_keys
from rlzoo.config.sections import Config
from rlzoo.config.words import flat
from rlzoo.errors import UserError

_MAY_BE_INFINITE = ("train.gradient_clip",)
_OTHERS = ("task.options.", "task.chat_template_kwargs.")


def check_ranges(config: Config) -> None:
    """Refuses numbers and words that no run could use. Raises UserError naming the key and what is allowed."""
    values = flat(dataclasses.asdict(config))
    _check_finite(values)
    if not config.output.strip():
        raise UserError("output= is empty; give it a value, or leave it out")
    check_keys(config)
    if config.model.attention.startswith("flash") and config.model.precision == "float32":
        raise UserError(f"model.attention={config.model.attention} needs model.precision=bfloat16")
    _check_lora(config)
    read_decodings(config.evaluation.decodings)
    if "" in config.evaluation.stop:
        raise UserError("evaluation.stop has an empty text, which would end every response before it begins")
    if config.train.minibatches_per_step > config.rollout.prompts_per_step:
        raise UserError(
            f"train.minibatches_per_step={config.train.minibatches_per_step} exceeds "
            f"rollout.prompts_per_step={config.rollout.prompts_per_step}; groups are never split"
        )


def _check_finite(values: Mapping[str, Any]) -> None:
    """NaN would pass every comparison. What a task makes of its own options is its affair."""
    for key, value in values.items():
        numbers = [it for it in (value if isinstance(value, list | tuple) else [value]) if isinstance(it, float)]
        is_fine = not any(map(math.isnan, numbers)) if key in _MAY_BE_INFINITE else all(map(math.isfinite, numbers))
        if not is_fine and not key.startswith(_OTHERS):
            raise UserError(f"{key}={value} must be finite")


def _check_lora(config: Config) -> None:
    lora = config.model.lora
    if lora.rank and config.train.sharding != "none":
        raise UserError(
            f"model.lora.rank={lora.rank}: adapters are not sharded; leave train.sharding={config.train.sharding} out"
        )
    for key, value in (("alpha", lora.alpha), ("targets", lora.targets)):
        if value and not lora.rank:
            raise UserError(
                f"model.lora.{key}={value} has no effect without model.lora.rank; set that, or leave it out"
            )
