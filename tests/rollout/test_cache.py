"""How much memory keys and values take, known before anything is loaded."""

from pathlib import Path

import torch

from rlzoo.config import ModelConfig
from rlzoo.model.policy import load_policy
from rlzoo.model.tokenizer import load_tokenizer
from rlzoo.rollout.memory import shape_of

TOKENS = 6


def test_the_numbers_kept_for_a_token_are_those_of_the_real_cache(tiny_model: Path) -> None:
    config = ModelConfig(name=str(tiny_model))
    tokenizer = load_tokenizer(config)
    model = load_policy(config, tokenizer).model
    cache = model(input_ids=torch.arange(TOKENS)[None], use_cache=True).past_key_values
    kept = sum(layer.keys.numel() + layer.values.numel() for layer in cache.layers)
    assert kept == TOKENS * shape_of(config).cached_numbers > 0
