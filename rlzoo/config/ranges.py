"""What numbers and words the keys of an experiment may have."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from rlzoo.config.decoding import read_decodings
from rlzoo.config.sections import Config
from rlzoo.config.words import flat
from rlzoo.errors import UserError

_AT_LEAST = {
    "model.lora.rank": 0,
    "task.problems": 1,
    "task.few_shot": 0,
    "task.held_out_rows": 0,
    "task.grader_workers": 1,
    "rollout.prompts_per_step": 1,
    "rollout.responses_per_prompt": 1,
    "rollout.max_prompt_tokens": 1,
    "rollout.max_response_tokens": 1,
    "rollout.max_refills": 0,
    "rollout.rows_per_batch": 1,
    "train.steps": 1,
    "train.learning_rate": 0,
    "train.warmup_steps": 0,
    "train.weight_decay": 0,
    "train.minibatches_per_step": 1,
    "train.tokens_per_micro_batch": 1,
    "evaluation.problems": 1,
    "evaluation.samples": 1,
    "evaluation.every": 0,
    "checkpoint.every": 0,
    "checkpoint.keep": 1,
    "log.responses": 0,
    "seed": 0,
}
_ABOVE_ZERO = ("task.grader_timeout", "rollout.temperature", "rollout.top_p", "train.gradient_clip")
_MAY_BE_INFINITE = ("train.gradient_clip",)
_OTHERS = ("task.options.", "task.chat_template_kwargs.")
_AT_MOST_ONE = ("rollout.top_p",)
CHOICES = {
    "model.precision": ("float32", "bfloat16"),
    "rollout.engine": ("transformers", "vllm", "vllm_server"),
    "rollout.ahead": ("0", "1"),
    "model.chat_template": ("auto", "none"),
    "train.schedule": ("constant", "linear", "cosine"),
    "train.sharding": ("none", "fsdp"),
}


def check_ranges(config: Config) -> None:
    """Refuses numbers and words that no run could use. Raises UserError naming the key and what is allowed."""
    values = flat(dataclasses.asdict(config))
    _check_finite(values)
    if not config.output.strip():
        raise UserError("output= is empty; give it a value, or leave it out")
    for key, lowest in _AT_LEAST.items():
        if values[key] < lowest:
            raise UserError(f"{key}={values[key]} is too small; it must be at least {lowest}")
    for key in _ABOVE_ZERO:
        if values[key] <= 0:
            raise UserError(f"{key}={values[key]} must be greater than 0")
    for key in _AT_MOST_ONE:
        if values[key] > 1:
            raise UserError(f"{key}={values[key]} must be at most 1")
    for key, choices in CHOICES.items():
        if str(values[key]) not in choices:
            raise UserError(f"{key}={values[key]} is not one of {', '.join(choices)}")
    if not all(0 <= beta < 1 for beta in config.train.betas):
        raise UserError(f"train.betas={list(config.train.betas)} must be at least 0 and less than 1")
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
    if lora.alpha is not None and lora.alpha <= 0:
        raise UserError(f"model.lora.alpha={lora.alpha:g} must be greater than 0")
    for key, value in (("alpha", lora.alpha), ("targets", lora.targets)):
        if value and not lora.rank:
            raise UserError(
                f"model.lora.{key}={value} has no effect without model.lora.rank; set that, or leave it out"
            )
