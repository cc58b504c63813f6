"""How much memory the keys and values of responses in progress take of the device that this process samples on."""

import logging
import math
import os
from dataclasses import replace

import torch

from rlzoo.config import ModelConfig, RolloutConfig
from rlzoo.model.shape import Shape, shape_of
from rlzoo.model.tokenizer import Tokenizer
from rlzoo.rollout import engine_class

GIB = 2**30
ROOM = 1.25
"""Keys and values that are held for each that is there: a cache that grows is given a quarter more than it needs."""
SPARE = 256
"""Tokens: a cache is cut into blocks, of which the last need not be full and one is never used."""

_logger = logging.getLogger(__name__)


def bytes_per_token(shape: Shape, model: ModelConfig) -> int:
    """Of the keys and values of one token."""
    return shape.cached_numbers * (2 if model.precision == "bfloat16" else 4)


def least_gib(shape: Shape, model: ModelConfig, length: int) -> float:
    """GiB, in quarters, with which a response can be sampled that has so many tokens with its prompt.

    Layers with a window, which an engine charges with all that it reads at once, count as if they saw everything.
    """
    return math.ceil(4 * bytes_per_token(replace(shape, windowed=0), model) * (length + SPARE) / GIB) / 4


def set_aside_gib(rollout: RolloutConfig, usual: float, model: ModelConfig, shape: Shape, length: int) -> float:
    """GiB for keys and values of an engine that sets `usual` aside: what is said, or else that or the least, if more.

    `length` are the tokens of the longest response with its prompt.
    """
    return rollout.kv_cache_gib or max(usual, least_gib(shape, model, length))


def cache_bytes(rollout: RolloutConfig, model: ModelConfig, shape: Shape, rows: int, length: int) -> float:
    """Bytes for so many responses side by side, each of so many tokens with its prompt, or what is set aside."""
    engine = engine_class(rollout.engine)
    if engine.apart:
        return 0.0
    if engine.kv_cache_gib is not None:
        return set_aside_gib(rollout, engine.kv_cache_gib, model, shape, length) * GIB
    return ROOM * bytes_per_token(shape, model) * length * rows


def warn_of_cache(rollout: RolloutConfig, model: ModelConfig, tokenizer: Tokenizer) -> None:
    """Says if keys and values could outgrow all memory where nothing is set aside for them."""
    length = rollout.max_prompt_tokens + rollout.max_response_tokens
    length = min(length, tokenizer.context_length or length)
    memory, needed = total_memory(), cache_bytes(rollout, model, shape_of(model), rollout.rows_per_batch, length)
    if engine_class(rollout.engine).kv_cache_gib is None and needed > memory:
        _logger.warning(
            "rollout.rows_per_batch=%d: keys and values of so many responses of %d tokens with their prompts take %.0f "
            "GiB, and there are %.0f; if most responses become that long, set rollout.engine=vllm or "
            "rollout.rows_per_batch=%d",
            *(rollout.rows_per_batch, length, needed / GIB, memory / GIB),
            max(1, int(memory / 2 / needed * rollout.rows_per_batch)),
        )


def total_memory() -> int:
    """Bytes of the device that this process samples on."""
    if torch.cuda.is_available():
        return int(torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
