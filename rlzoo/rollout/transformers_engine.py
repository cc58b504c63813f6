"""Sampling with transformers: one decode loop, whose finished responses leave the batch."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import Cache, DynamicCache
from transformers.cache_utils import DynamicLayer

from rlzoo.config import ModelConfig, RolloutConfig
from rlzoo.config.decoding import Decoding
from rlzoo.model.layout import to_device
from rlzoo.model.policy import Policy
from rlzoo.model.sharding import is_sharded
from rlzoo.model.tokenizer import Tokenizer
from rlzoo.rollout.base import Rollouts, Sampling, Watch, draw, uniform, widened
from rlzoo.rollout.traits import TransformersTraits

FINISHED_FRACTION = 0.1
"""Finished rows leave the batch when they make up this part of it: others take their places in the cache."""


class TransformersEngine(TransformersTraits):
    """Samples with the policy's own weights in float32, or with a bfloat16 copy of them whose head stays exact.

    Of sharded weights it samples with a whole copy in either dtype, so that processes need not keep in step.
    Every draw depends on seed, row and position alone, so the same seed gives the same responses; `rows_per_batch` and
    the responses that finish early matter only as far as they change the rounding of the logits.
    """

    def __init__(
        self,
        policy: Policy,
        tokenizer: Tokenizer,
        config: RolloutConfig,
        model: ModelConfig,
        version: int = 0,
    ) -> None:
        self.rows_per_batch, self.version, self.tokenizer = config.rows_per_batch, version, tokenizer
        self.stop_tokens = torch.tensor(sorted(tokenizer.stop_tokens))
        dtype = torch.bfloat16 if model.precision == "bfloat16" else torch.float32
        needs_copy = is_sharded(policy) or model.precision == "bfloat16"
        self.policy = policy.sampling_copy(dtype) if needs_copy else policy

    @classmethod
    def check(cls, rollout: RolloutConfig, model: ModelConfig, decodings: Sequence[Decoding]) -> None:
        """It follows every setting."""

    def sync(self, policy: Policy, version: int) -> None:
        """Brings the copy up to date, if there is one; all processes together."""
        self.version = version
        if self.policy is not policy:
            self.policy.copy_weights(policy)

    def close(self) -> None:
        """Nothing is held beyond the weights."""

    @torch.no_grad()
    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        responses_per_prompt: int,
        sampling: Sampling,
        seed: int,
        numbers: Sequence[int] | None = None,
    ) -> Rollouts:
        """Samples `responses_per_prompt` responses to each prompt; the results lie on the CPU."""
        prompt = torch.arange(len(prompts)).repeat_interleave(responses_per_prompt)
        number = prompt if numbers is None else torch.tensor(numbers)[prompt]
        row_number = number * responses_per_prompt + torch.arange(len(prompt)) % responses_per_prompt
        by_length = torch.tensor([len(ids) for ids in prompts])[prompt].argsort(stable=True)
        tokens = torch.zeros(len(prompt), 0, dtype=torch.long)
        logp = entropy = torch.zeros(len(prompt), 0)
        for rows in by_length.split(self.rows_per_batch):
            steps = self._decode(prompts, prompt[rows], rows, row_number, sampling, seed)
            width = max(len(steps), tokens.shape[1])
            tokens, logp, entropy = (widened(tensor, width) for tensor in (tokens, logp, entropy))
            for column, step in enumerate(steps):
                tokens[step.rows, column] = step.tokens.cpu()
                logp[step.rows, column] = step.logp.cpu()
                entropy[step.rows, column] = step.entropy.cpu()
        return Rollouts.until_stop(prompts, prompt, (tokens, logp, entropy), self.stop_tokens, self.version)

    def _decode(
        self,
        prompts: Sequence[Sequence[int]],
        prompt: Tensor,
        rows: Tensor,
        row_number: Tensor,
        sampling: Sampling,
        seed: int,
    ) -> list["_Step"]:
        """Decodes the responses `rows` [n] to `prompt` [n] until all have ended; `row_number` [N] decides the draws."""
        device = self.policy.model.device
        stop_tokens = self.stop_tokens.to(device)
        cache = _cache(self.policy.model.config)
        distinct, which = prompt.unique(return_inverse=True)
        inputs, mask = _left_padded([prompts[i] for i in distinct.tolist()], device)
        position = (mask.cumsum(1) - 1).clamp(min=0)
        logits = self._forward(inputs, mask, position, cache)
        which = which.to(device)
        cache.batch_select_indices(which)
        logits, mask, position = logits[which], mask[which], position[which, -1:]
        running = torch.ones(len(rows), dtype=torch.bool, device=device)
        watch = Watch(sampling.stop, self.tokenizer.decode) if sampling.stop else None
        steps: list[_Step] = []
        while True:
            chosen = draw(logits, sampling, to_device(uniform(seed, len(steps), row_number)[rows], device))
            steps.append(_Step(rows, *chosen))
            tokens = chosen[0]
            running = running & ~torch.isin(tokens, stop_tokens)
            if watch:
                running = running & torch.tensor(watch.go_on(rows.tolist(), tokens.tolist()), device=device)
            left = int(running.sum())
            if left == 0 or len(steps) == sampling.max_response_tokens:
                return steps
            if left <= (1 - FINISHED_FRACTION) * len(rows):
                stay = _closed_up(running, left)
                cache.batch_select_indices(stay)
                tokens, mask, position, running = tokens[stay], mask[stay], position[stay], running[stay]
                rows = rows[stay.cpu()]
            mask = torch.cat([mask, mask.new_ones(len(mask), 1)], 1)
            position = position + 1
            logits = self._forward(tokens[:, None], mask, position, cache)

    def _forward(self, inputs: Tensor, mask: Tensor, position: Tensor, cache: Cache) -> Tensor:
        return self.policy.next_logits(
            inputs, attention_mask=mask, position_ids=position, past_key_values=cache, use_cache=True
        )


class _Step(NamedTuple):
    """One token of each of the rows still in the batch."""

    rows: Tensor
    tokens: Tensor
    logp: Tensor
    entropy: Tensor


def _closed_up(running: Tensor, left: int) -> Tensor:
    """[left] the rows that go on, in their places, those from behind in the places of finished ones."""
    stay = torch.arange(left, device=running.device)
    stay[~running[:left]] = left + running[left:].nonzero()[:, 0]
    return stay


def _left_padded(prompts: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Token ids [n, L] and the mask [n, L] of what is not padding."""
    longest = max(len(ids) for ids in prompts)
    inputs = torch.tensor([[*[0] * (longest - len(ids)), *ids] for ids in prompts], device=device)
    starts = torch.tensor([longest - len(ids) for ids in prompts], device=device)
    return inputs, (torch.arange(longest, device=device) >= starts[:, None]).long()


def _cache(config: Any) -> Cache:
    cache = DynamicCache(config=config)
    cache.layers = [_ReservedLayer() if type(layer) is DynamicLayer else layer for layer in cache.layers]
    return cache


class _ReservedLayer(DynamicLayer):
    """Keys and values in buffers with room behind them, so that a new token is written and the old ones stay put."""

    def __init__(self) -> None:
        super().__init__()
        self.length = 0
        self.buffers: tuple[Tensor, Tensor] | None = None

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        if self.buffers is None:
            self.lazy_initialization(key_states, value_states)
            self.buffers = key_states[:, :, :0], value_states[:, :, :0]
        start, self.length = self.length, self.length + key_states.shape[-2]
        if self.length > self.buffers[0].shape[-2]:
            self.buffers = self._roomier(self.buffers[0], start), self._roomier(self.buffers[1], start)
        self.buffers[0][:, :, start : self.length] = key_states
        self.buffers[1][:, :, start : self.length] = value_states
        return self._filled()

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keeps some rows, or repeats them. The room behind them is not copied.

        Rows that only take the places of others in front of them are moved, and no other is touched.
        """
        assert self.buffers is not None
        keys, values = self.buffers
        count = len(indices)
        places = (indices != torch.arange(count, device=indices.device)).nonzero()[:, 0]
        if count <= len(keys) and bool((indices[places] >= count).all()):
            for held in self.buffers:
                held[places, :, : self.length] = held[indices[places], :, : self.length]
            self.buffers = keys[:count], values[:count]
        else:
            self.buffers = self._selected(keys, indices), self._selected(values, indices)
        self._filled()

    def _selected(self, held: Tensor, indices: Tensor) -> Tensor:
        _, heads, room, size = held.shape
        buffer = held.new_empty(len(indices), heads, room, size)
        torch.index_select(held[:, :, : self.length], 0, indices, out=buffer[:, :, : self.length])
        return buffer

    def _roomier(self, held: Tensor, length: int) -> Tensor:
        rows, heads, _, size = held.shape
        buffer = held.new_empty(rows, heads, self.length + self.length // 4 + 64, size)
        buffer[:, :, :length] = held[:, :, :length]
        return buffer

    def _filled(self) -> tuple[Tensor, Tensor]:
        assert self.buffers is not None
        keys, values = self.buffers[0][:, :, : self.length], self.buffers[1][:, :, : self.length]
        self.keys, self.values = keys, values
        return keys, values
