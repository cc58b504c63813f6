"""Sampling with transformers."""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import DynamicCache

from rlzoo.policy import Policy
from rlzoo.rollout.base import Rollouts, Sampling, concatenate
from rlzoo.tokenizer import Tokenizer


class TransformersEngine:
    """A decode loop."""

    def __init__(self, policy: Policy, tokenizer: Tokenizer, precision: str, rows_per_batch: int) -> None:
        self.tokenizer, self.rows_per_batch = tokenizer, rows_per_batch
        self.dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
        self.model = policy.model if self.dtype is torch.float32 else copy.deepcopy(policy.model).to(self.dtype)

    @torch.no_grad()
    def sync(self, policy: Policy) -> None:
        """Copies the weights."""
        if self.dtype is not torch.float32:
            for own, new in zip(self.model.parameters(), policy.model.parameters(), strict=True):
                own.copy_(new)

    @torch.no_grad()
    def generate(self, prompts: Sequence[Sequence[int]], responses_per_prompt: int, sampling: Sampling, seed: int) -> Rollouts:
        """Samples."""
        generator = torch.Generator(next(self.model.parameters()).device).manual_seed(seed)
        per = max(1, self.rows_per_batch // responses_per_prompt)
        return concatenate([
            self._batch(prompts[i : i + per], responses_per_prompt, sampling, generator) for i in range(0, len(prompts), per)
        ])

    def _batch(self, prompts: Sequence[Sequence[int]], g: int, sampling: Sampling, generator: torch.Generator) -> Rollouts:
        device = next(self.model.parameters()).device
        width = max(map(len, prompts))
        ids = torch.zeros(len(prompts), width, dtype=torch.long, device=device)
        attention = torch.zeros_like(ids)
        for i, prompt in enumerate(prompts):
            ids[i, width - len(prompt) :] = torch.tensor(list(prompt))
            attention[i, width - len(prompt) :] = 1
        cache = DynamicCache()
        position = (attention.cumsum(1) - 1).clamp(min=0)
        logits = self.model(input_ids=ids, attention_mask=attention, position_ids=position, past_key_values=cache).logits[:, -1]
        cache.batch_repeat_interleave(g)
        logits = logits.repeat_interleave(g, 0)
        attention, position = attention.repeat_interleave(g, 0), position[:, -1:].repeat_interleave(g, 0)
        n = len(prompts) * g
        stops = torch.tensor(sorted(self.tokenizer.stop_tokens), device=device)
        tokens, logps, entropies, masks = [], [], [], []
        alive = torch.ones(n, dtype=torch.bool, device=device)
        for _ in range(sampling.max_response_tokens):
            token, logp, entropy = _sample(logits.float(), sampling, generator)
            tokens.append(torch.where(alive, token, 0))
            logps.append(torch.where(alive, logp, 0.0))
            entropies.append(torch.where(alive, entropy, 0.0))
            masks.append(alive)
            alive = alive & ~torch.isin(token, stops)
            if not alive.any():
                break
            attention = torch.cat([attention, attention.new_ones(n, 1)], 1)
            position = position + 1
            logits = self.model(input_ids=token[:, None], attention_mask=attention, position_ids=position, past_key_values=cache).logits[:, -1]
        return Rollouts(
            prompts=prompts,
            prompt=torch.arange(len(prompts)).repeat_interleave(g),
            tokens=torch.stack(tokens, 1).cpu(),
            mask=torch.stack(masks, 1).cpu(),
            logp=torch.stack(logps, 1).cpu(),
            entropy=torch.stack(entropies, 1).cpu(),
            truncated=alive.cpu(),
        )


def _sample(logits: Tensor, sampling: Sampling, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    greedy = sampling.temperature == 0
    logp = (logits if greedy else logits / sampling.temperature).log_softmax(-1)
    if sampling.top_p < 1:
        ordered, order = logp.sort(descending=True)
        beyond = ordered.exp().cumsum(-1) - ordered.exp() >= sampling.top_p
        logp = logp.masked_fill(beyond.scatter(1, order, beyond), -torch.inf).log_softmax(-1)
    token = logp.argmax(-1) if greedy else torch.multinomial(logp.exp(), 1, generator=generator)[:, 0]
    entropy = -torch.where(logp.isinf(), 0.0, logp.exp() * logp).sum(-1)
    return token, logp.gather(1, token[:, None])[:, 0], entropy
