"""Rollout engines behind one protocol."""

import logging
import os

import torch

from rlzoo.config import Config, ModelConfig, RolloutConfig
from rlzoo.errors import UserError
from rlzoo.model.policy import Policy
from rlzoo.model.tokenizer import Tokenizer
from rlzoo.rollout.base import RolloutEngine

_logger = logging.getLogger(__name__)


def check_engine(config: Config) -> None:
    """Refuses an engine that cannot run here and settings it would not heed, before any model loads."""
    rollout = config.rollout
    read_by = {"kv_cache_gib": (rollout.kv_cache_gib, "vllm"), "server": (rollout.server, "vllm_server")}
    for key, (value, reader) in read_by.items():
        if value is not None and rollout.engine != reader:
            raise UserError(f"rollout.{key}={value} has no effect with rollout.engine={rollout.engine}; leave it out")
    if rollout.engine != "transformers":
        from rlzoo.rollout.vllm_engine import check

        check(rollout, config.evaluation)
    if rollout.engine == "vllm_server":
        from rlzoo.rollout.vllm_server import check_server

        check_server(rollout, config.model)


def warn_of_cache(rollout: RolloutConfig, model: ModelConfig, tokenizer: Tokenizer) -> None:
    """Says if keys and values of the responses decoded side by side could outgrow all memory: vLLM makes them wait."""
    length = rollout.max_prompt_tokens + rollout.max_response_tokens
    length = min(length, tokenizer.context_length or length)
    response = tokenizer.cached_numbers * length * (2 if model.precision == "bfloat16" else 4)
    memory, needed = total_memory(), response * rollout.rows_per_batch
    if rollout.engine == "transformers" and needed > memory:
        _logger.warning(
            "rollout.rows_per_batch=%d: keys and values of so many responses of %d tokens with their prompts take %.0f "
            "GiB, and there are %.0f; if most responses become that long, set rollout.engine=vllm or "
            "rollout.rows_per_batch=%d",
            *(rollout.rows_per_batch, length, needed / 2**30, memory / 2**30, max(1, memory // 2 // response)),
        )


def total_memory() -> int:
    """Bytes of the device that this process samples on."""
    if torch.cuda.is_available():
        return int(torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def load_engine(
    config: RolloutConfig,
    model: ModelConfig,
    policy: Policy,
    tokenizer: Tokenizer,
    version: int = 0,
    will_be_sharded: bool = False,
) -> RolloutEngine:
    """The engine that `rollout.engine` names; the policy has `version` updates behind it."""
    if config.engine == "vllm":
        from rlzoo.rollout.vllm_engine import VllmEngine

        return VllmEngine(policy, tokenizer, config, model, version, will_be_sharded)
    if config.engine == "vllm_server":
        from rlzoo.rollout.vllm_server import VllmServer

        return VllmServer(policy, tokenizer, config, model, version)
    from rlzoo.rollout.transformers_engine import TransformersEngine

    return TransformersEngine(policy, tokenizer, model.precision, config.rows_per_batch, version, will_be_sharded)
