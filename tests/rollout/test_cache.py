"""How much memory keys and values take, known before anything is loaded."""

import logging
from pathlib import Path

import pytest
import torch

import rlzoo.rollout.memory
from rlzoo.config import ModelConfig, RolloutConfig
from rlzoo.model.policy import load_policy
from rlzoo.model.tokenizer import load_tokenizer
from rlzoo.rollout.memory import ROOM, shape_of, total_memory, warn_of_cache

TOKENS = 6


def test_the_numbers_kept_for_a_token_are_those_of_the_real_cache(tiny_model: Path) -> None:
    config = ModelConfig(name=str(tiny_model))
    tokenizer = load_tokenizer(config)
    model = load_policy(config, tokenizer).model
    cache = model(input_ids=torch.arange(TOKENS)[None], use_cache=True).past_key_values
    kept = sum(layer.keys.numel() + layer.values.numel() for layer in cache.layers)
    assert kept == TOKENS * shape_of(config).cached_numbers > 0


@pytest.mark.parametrize(
    ("engine", "precision", "memory", "warns"),
    [
        ("transformers", "float32", 1.01, False),
        ("transformers", "float32", 0.99, True),
        ("transformers", "bfloat16", 0.51, False),
        ("transformers", "bfloat16", 0.49, True),
        ("vllm", "float32", 0.1, False),
    ],
)
def test_responses_that_could_outgrow_memory_are_said(
    engine: str,
    precision: str,
    memory: float,
    warns: bool,
    tiny_model: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = ModelConfig(name=str(tiny_model), precision=precision)
    tokenizer = load_tokenizer(model)
    rollout = RolloutConfig(engine=engine, max_prompt_tokens=20, max_response_tokens=10, rows_per_batch=100)
    needed = ROOM * 100 * 30 * shape_of(model).cached_numbers * 4
    monkeypatch.setattr(rlzoo.rollout.memory, "total_memory", lambda: int(needed * memory))
    with caplog.at_level(logging.WARNING):
        warn_of_cache(rollout, model, tokenizer)
    assert ("rollout.engine=vllm or rollout.rows_per_batch=" in caplog.text) == warns
    assert total_memory() > 2**28
