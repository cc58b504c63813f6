"""The rollout seam: an engine that samples responses with the current policy."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from rlzoo.model.policy import Policy


@dataclass(frozen=True)
class Sampling:
    """How responses are decoded. `temperature` 0 is greedy."""

    max_response_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0


@dataclass(frozen=True)
class Rollouts:
    """N = prompts x responses per prompt sampled responses, the responses of one prompt side by side.

    `tokens` [N, T] int64, zero beyond `mask`; `mask` [N, T] bool covers each response up to and including its
    end-of-sequence token; `logp` [N, T] float32 is the log-prob of each sampled token under the distribution it was
    sampled from; `entropy` [N, T] float32 is that distribution's entropy in nats (an engine that cannot see it reports
    -logp, an unbiased estimate for sampled tokens and too low for greedy ones); `prompt` [N] int64 indexes `prompts`;
    `truncated` [N] bool marks responses that were stopped by length.
    """

    prompts: Sequence[Sequence[int]]
    prompt: Tensor
    tokens: Tensor
    mask: Tensor
    logp: Tensor
    entropy: Tensor
    truncated: Tensor

    def rows(self, index: Tensor) -> "Rollouts":
        """Some of the responses; `prompts` stay as they are."""
        names = ("prompt", "tokens", "mask", "logp", "entropy", "truncated")
        return replace(self, **{name: getattr(self, name)[index] for name in names})

    def prompt_tokens(self) -> list[Sequence[int]]:
        """The prompt of each response."""
        return [self.prompts[number] for number in self.prompt.tolist()]

    @property
    def lengths(self) -> Tensor:
        """[N] int64, response tokens including the end-of-sequence token."""
        return self.mask.sum(1)


class RolloutEngine(Protocol):
    """Samples responses. Token ids go in and come out; text is never re-tokenised."""

    def generate(
        self, prompts: Sequence[Sequence[int]], responses_per_prompt: int, sampling: Sampling, seed: int
    ) -> Rollouts:
        """Samples `responses_per_prompt` responses to each prompt; the same seed gives the same responses."""
        ...

    def sync(self, policy: Policy) -> None:
        """Takes over the policy's weights; called after every change of them."""
        ...

    def close(self) -> None:
        """Gives back what the engine holds; it samples no more."""
        ...


def concatenate(parts: Sequence[Rollouts]) -> Rollouts:
    """Joins rollouts, padding responses to the longest."""
    width = max(part.tokens.shape[1] for part in parts)
    offsets = [sum(len(part.prompts) for part in parts[:i]) for i in range(len(parts))]

    def padded(tensors: Sequence[Tensor]) -> Tensor:
        return torch.cat([torch.nn.functional.pad(tensor, (0, width - tensor.shape[1])) for tensor in tensors])

    return Rollouts(
        prompts=[prompt for part in parts for prompt in part.prompts],
        prompt=torch.cat([part.prompt + offset for part, offset in zip(parts, offsets, strict=True)]),
        tokens=padded([part.tokens for part in parts]),
        mask=padded([part.mask for part in parts]),
        logp=padded([part.logp for part in parts]),
        entropy=padded([part.entropy for part in parts]),
        truncated=torch.cat([part.truncated for part in parts]),
    )
