"""Tiny random models of several architectures, and the statistics of their responses calculated the slow way."""

import copy
from typing import Any

import torch
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    CohereConfig,
    Gemma2Config,
    GPT2Config,
    LlamaConfig,
    MistralConfig,
    PreTrainedConfig,
    Qwen2Config,
    Qwen3Config,
)

from rlzoo.model.layout import Responses
from rlzoo.model.policy import Policy
from rlzoo.model.tokenizer import Tokenizer
from tests.conftest import character_tokenizer

VOCABULARY = 300
STOP = 13

COMMON: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "bos_token_id": None,
    "eos_token_id": STOP,
    "pad_token_id": None,
    "initializer_range": 0.3,
}
CONFIGS: dict[str, PreTrainedConfig] = {
    "qwen3": Qwen3Config(**COMMON, tie_word_embeddings=True, attention_dropout=0.5),
    "qwen2": Qwen2Config(**COMMON, use_sliding_window=True, sliding_window=4, max_window_layers=1),
    "llama": LlamaConfig(**COMMON, tie_word_embeddings=False),
    "gemma2": Gemma2Config(**COMMON, sliding_window=5, final_logit_softcapping=3.0, query_pre_attn_scalar=8),
    "mistral": MistralConfig(**COMMON, sliding_window=5),
    "gpt2": GPT2Config(
        vocab_size=VOCABULARY, n_positions=64, n_embd=32, n_layer=2, n_head=4, eos_token_id=STOP, initializer_range=0.3
    ),
    "cohere": CohereConfig(**{k: v for k, v in COMMON.items() if k != "head_dim"}, logit_scale=0.5),
}


def tiny_tokenizer() -> Tokenizer:
    return Tokenizer(character_tokenizer(), frozenset({STOP}), 64, False)


def tiny_policy(name: str, gradient_checkpointing: bool = False, attention: str = "", **changes: Any) -> Policy:
    config = copy.deepcopy(CONFIGS[name])
    config.update(changes)
    torch.manual_seed(0)
    attention = attention or ("eager" if name == "gemma2" else "sdpa")
    model = AutoModelForCausalLM.from_config(config, attn_implementation=attention)
    return Policy(model.float(), tiny_tokenizer(), gradient_checkpointing)


def responses(rows: int = 4, width: int = 7) -> Responses:
    """Responses of different lengths to prompts of different lengths; the last response is the shortest."""
    generator = torch.Generator().manual_seed(1)
    lengths = torch.tensor([width, *[max(1, width - 2 * i) for i in range(1, rows)]])
    prompts = [torch.randint(VOCABULARY, (3 + 4 * i,), generator=generator).tolist() for i in range(rows)]
    tokens = torch.randint(VOCABULARY, (rows, width), generator=generator)
    mask = torch.arange(width) < lengths[:, None]
    return Responses(prompts, tokens.where(mask, 0), lengths, mask)


def slow_statistics(policy: Policy, sampled: Responses, temperature: float) -> tuple[Tensor, Tensor]:
    """Log-probs and entropies [n, T] in float64, each response by itself, unpadded, from the model's own logits."""
    model = copy.deepcopy(policy.model).double().eval()
    mask = sampled.mask
    logp, entropy = (torch.zeros(mask.shape, dtype=torch.float64) for _ in range(2))
    for row, prompt in enumerate(sampled.prompts):
        length = int(sampled.lengths[row])
        response = sampled.tokens[row, :length]
        inputs = torch.tensor([[*prompt, *response.tolist()]])
        with torch.no_grad():
            logits = model(input_ids=inputs).logits[0, len(prompt) - 1 : len(prompt) - 1 + length] / temperature
        distribution = torch.distributions.Categorical(logits=logits)
        logp[row, :length], entropy[row, :length] = distribution.log_prob(response), distribution.entropy()
    return logp.where(mask, 0.0), entropy.where(mask, 0.0)
