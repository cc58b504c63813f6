"""The policy: a causal language model that reports log-prob and entropy of response tokens."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_model
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from rlzoo.config import ModelConfig
from rlzoo.pretrained import locate
from rlzoo.tokenizer import Tokenizer


@dataclass(frozen=True)
class TokenStats:
    """Log-prob of each response token and, if asked for, the entropy of its distribution; [n, T] fp32."""

    logp: Tensor
    entropy: Tensor | None


class Policy(nn.Module):
    """A causal language model."""

    def __init__(self, model: nn.Module, tokenizer: Tokenizer) -> None:
        super().__init__()
        self.model, self.tokenizer = model, tokenizer
        self.model.eval()

    def forward(
        self, prompts: Sequence[Sequence[int]], tokens: Tensor, mask: Tensor, temperature: float, with_entropy: bool
    ) -> TokenStats:
        """Statistics of responses [n, T]."""
        lengths = mask.sum(1)
        width = max(len(p) + int(n) for p, n in zip(prompts, lengths.tolist(), strict=True))
        ids = torch.zeros(len(prompts), width, dtype=torch.long, device=tokens.device)
        where = torch.zeros_like(ids, dtype=torch.bool)
        for i, prompt in enumerate(prompts):
            n = int(lengths[i])
            ids[i, : len(prompt)] = torch.tensor(list(prompt))
            ids[i, len(prompt) : len(prompt) + n] = tokens[i, :n]
            where[i, len(prompt) - 1 : len(prompt) - 1 + n] = True
        attention = torch.zeros_like(ids)
        for i, prompt in enumerate(prompts):
            attention[i, : len(prompt) + int(lengths[i])] = 1
        logits = self.model(input_ids=ids, attention_mask=attention, use_cache=False).logits[where].float() / temperature
        all_logp = logits.log_softmax(-1)
        logp = torch.zeros(mask.shape, device=tokens.device).masked_scatter(mask, all_logp.gather(1, tokens[mask][:, None]))
        if not with_entropy:
            return TokenStats(logp, None)
        entropy = -(all_logp.exp() * all_logp).sum(-1)
        return TokenStats(logp, torch.zeros(mask.shape, device=tokens.device).masked_scatter(mask, entropy))

    def save(self, folder: Path) -> None:
        """Writes a Hugging Face folder."""
        self.model.save_pretrained(folder)
        self.tokenizer.backend.save_pretrained(folder)

    def load(self, folder: Path) -> None:
        """Takes over the weights of a saved policy."""
        load_model(self.model, folder / "model.safetensors", strict=False)

    def frozen_copy(self) -> "Policy":
        """A copy without gradients."""
        return copy.deepcopy(self).requires_grad_(False)


def load_policy(config: ModelConfig, tokenizer: Tokenizer) -> Policy:
    """Loads the weights in float32."""
    source = locate(config)
    model = AutoModelForCausalLM.from_pretrained(
        source.path, dtype=torch.float32, attn_implementation=config.attention, **source.options
    )
    return Policy(model, tokenizer)
