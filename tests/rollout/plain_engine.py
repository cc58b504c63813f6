"""An engine from outside, in one file: it reads every response from its first token on again for each that it adds."""

from collections.abc import Sequence

import torch

from rlzoo.config import ModelConfig, RolloutConfig
from rlzoo.config.decoding import Decoding
from rlzoo.model.policy import Policy
from rlzoo.model.tokenizer import Tokenizer
from rlzoo.rollout.base import Rollouts, Sampling, draw, uniform


class PlainEngine:
    """`rollout.engine=./plain_engine.py:PlainEngine`: samples with the policy itself, and keeps nothing."""

    sees_entropy, apart, shares_weights, sleeps = True, False, True, False
    kv_cache_gib = None
    reads = frozenset[str]()
    packages = ()

    def __init__(
        self,
        policy: Policy,
        tokenizer: Tokenizer,
        config: RolloutConfig,
        model: ModelConfig,
        version: int = 0,
    ) -> None:
        self.policy, self.version = policy, version
        self.stop_tokens = torch.tensor(sorted(tokenizer.stop_tokens))

    @classmethod
    def check(cls, rollout: RolloutConfig, model: ModelConfig, decodings: Sequence[Decoding]) -> None:
        """It follows every setting."""

    def sync(self, policy: Policy, version: int) -> None:
        """The weights are the policy's own."""
        self.policy, self.version = policy, version

    def close(self) -> None:
        """Nothing is held."""

    @torch.no_grad()
    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        responses_per_prompt: int,
        sampling: Sampling,
        seed: int,
        numbers: Sequence[int] | None = None,
    ) -> Rollouts:
        """Samples `responses_per_prompt` responses to each prompt, the prompts one after the other."""
        prompt = torch.arange(len(prompts)).repeat_interleave(responses_per_prompt)
        shape = (len(prompt), sampling.max_response_tokens)
        tokens, logp, entropy = torch.zeros(shape, dtype=torch.long), torch.zeros(shape), torch.zeros(shape)
        for here, ids in enumerate(prompts):
            rows, number = slice(here * responses_per_prompt, None), here if numbers is None else numbers[here]
            rows = slice(rows.start, rows.start + responses_per_prompt)
            lot = number * responses_per_prompt + torch.arange(responses_per_prompt)
            text = torch.tensor([list(ids)] * responses_per_prompt)
            for step in range(sampling.max_response_tokens):
                drawn = draw(self.policy.next_logits(text), sampling, uniform(seed, step, lot))
                for kept, value in zip((tokens, logp, entropy), drawn, strict=True):
                    kept[rows, step] = value
                text = torch.cat([text, drawn[0][:, None]], 1)
        return Rollouts.until_stop(prompts, prompt, (tokens, logp, entropy), self.stop_tokens, self.version)
