"""The rollout seam: an engine that samples responses with the current policy."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import ClassVar, Protocol, Self

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.core_model_loading import revert_weight_conversion

from objectives import Writer, writers
from rlzoo.config import ModelConfig, RolloutConfig
from rlzoo.config.decoding import Decoding
from rlzoo.errors import UserError
from rlzoo.model.layout import Responses
from rlzoo.model.policy import Policy
from rlzoo.model.sharding import full_tensor
from rlzoo.model.tokenizer import Tokenizer

LARGEST_DIFFERENCE = 0.5
"""Nats per token between the log-probs of an engine and of transformers; bfloat16 makes 0.03, wrong weights several."""


@dataclass(frozen=True)
class Sampling:
    """How responses are decoded. `temperature` 0 is greedy; `top_k` 0 and `min_p` 0 leave out nothing.

    Of what `min_p` times the likeliest token's probability leaves, the `top_k` likeliest, and of these the nucleus.
    A response ends before one of the `stop` texts; an engine may go on, what it writes behind them is cut off.
    `noise` is the standard deviation of an offset on every token's logit, for engines that read `rollout.noise`.
    """

    max_response_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    stop: tuple[str, ...] = ()
    noise: float = 0.0


@dataclass(frozen=True)
class Rollouts:
    """N = prompts x responses per prompt sampled responses, the responses of one prompt side by side.

    `tokens` [N, T] int64 are the responses, `lengths` [N] int64 how many tokens each has, its end of sequence included;
    what is beyond is zero. `mask` [N, T] bool are the tokens that the policy chose and the loss sees: all of them,
    unless an environment wrote some. `logp` [N, T] float32 is the log-prob of each sampled token under the distribution
    it was sampled from; `entropy` [N, T] float32 is that distribution's entropy in nats (an engine that cannot see it
    reports -logp, an unbiased estimate for sampled tokens and too low for greedy ones); `prompt` [N] int64 indexes
    `prompts`; `truncated` [N] bool marks responses that were stopped by length; `version` [N, T] int64 says how many
    updates the policy had behind it that sampled each token, and is zero where `mask` is not.
    """

    prompts: Sequence[Sequence[int]]
    prompt: Tensor
    tokens: Tensor
    lengths: Tensor
    mask: Tensor
    logp: Tensor
    entropy: Tensor
    truncated: Tensor
    version: Tensor

    def __post_init__(self) -> None:
        if self.version.shape != self.tokens.shape:
            raise UserError(
                f"rollout.engine: its Rollouts have a version {[*self.version.shape]} beside tokens "
                f"{[*self.tokens.shape]}; give each token that of the policy which sampled it, 0 where mask is not"
            )

    @classmethod
    def until_stop(
        cls,
        prompts: Sequence[Sequence[int]],
        prompt: Tensor,
        drawn: Sequence[Tensor],
        stop_tokens: Tensor,
        version: int,
    ) -> Self:
        """Cuts `drawn` tokens, log-probs and entropies, [N, T] each, behind the first stop token of each row."""
        tokens, logp, entropy = drawn
        ends = torch.isin(tokens, stop_tokens)
        mask = ends.cumsum(1) - ends.long() == 0
        return cls(
            prompts=prompts,
            prompt=prompt,
            tokens=tokens.where(mask, 0),
            lengths=mask.sum(1),
            mask=mask,
            logp=logp.where(mask, 0.0),
            entropy=entropy.where(mask, 0.0),
            truncated=~ends.any(1),
            version=version * mask.long(),
        )

    def rows(self, index: Tensor) -> "Rollouts":
        """Some of the responses; `prompts` stay as they are."""
        return Rollouts(self.prompts, **{name: tensor[index] for name, tensor in self.tensors().items()})

    def tensors(self) -> dict[str, Tensor]:
        """What there is of each response, by name."""
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name != "prompts"}

    def with_tensors(self, changed: Mapping[str, Tensor]) -> "Rollouts":
        """With others in place of some of its tensors, by name."""
        return Rollouts(self.prompts, **{**self.tensors(), **changed})

    def widened(self, width: int) -> "Rollouts":
        """The same responses with room for `width` tokens, at least as many as there is room for now."""
        return Rollouts(self.prompts, **{name: widened(tensor, width) for name, tensor in self.tensors().items()})

    def responses(self, observed: bool = False) -> Responses:
        """What a policy takes of them, no wider than the longest; if `observed`, with what an environment wrote."""
        width = int(self.lengths.max())
        asked = self.writers() != Writer.NONE if observed else self.mask
        return Responses(self.prompt_tokens(), self.tokens[:, :width], self.lengths, asked[:, :width])

    def writers(self) -> Tensor:
        """[N, T] int64: who wrote each token, a `Writer`."""
        return writers(self.mask, torch.arange(self.mask.shape[1]) < self.lengths[:, None])

    def prompt_tokens(self) -> list[Sequence[int]]:
        """The prompt of each response."""
        return [self.prompts[number] for number in self.prompt.tolist()]


class RolloutEngine(Protocol):
    """Samples responses. Token ids go in and come out; text is never re-tokenised.

    What an engine can do stands at its class, and is read before an engine is made. Two further attributes may be left
    out: `side_by_side`, whether threads can ask it, and `queues`, whether it takes any number of rows at once.
    """

    sees_entropy: ClassVar[bool]
    """Whether the entropies that it reports are those of the whole vocabulary."""
    apart: ClassVar[bool]
    """Whether it samples on devices of its own with weights of its own, so that it can while the policy trains."""
    shares_weights: ClassVar[bool]
    """Whether it calculates with the policy's model: with its very weights, or a copy where it needs another dtype or
    whole weights of a sharded policy. The log-probs of one that calculates by itself are compared when it is loaded."""
    sleeps: ClassVar[bool]
    """Whether it gives the memory of a GPU back while the policy trains."""
    kv_cache_gib: ClassVar[float | None]
    """GiB that it sets aside here for keys and values unless `rollout.kv_cache_gib` says; None if these grow."""
    reads: ClassVar[frozenset[str]]
    """The keys of `rollout` that it reads among those whose default is none or empty."""
    packages: ClassVar[tuple[str, ...]]
    """The distributions that sample, whose versions a run records."""

    def __init__(
        self,
        policy: Policy,
        tokenizer: Tokenizer,
        config: RolloutConfig,
        model: ModelConfig,
        version: int = 0,
    ) -> None:
        """Takes the policy's weights, `version` updates old; where they are sharded, all processes make it together."""
        ...

    @classmethod
    def check(cls, rollout: RolloutConfig, model: ModelConfig, decodings: Sequence[Decoding]) -> None:
        """Raises UserError for settings that it cannot follow, and if it cannot run here; nothing is loaded yet.

        `decodings` are those of `evaluation.decodings`, which it will sample besides what `rollout` says.
        """
        ...

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        responses_per_prompt: int,
        sampling: Sampling,
        seed: int,
        numbers: Sequence[int] | None = None,
    ) -> Rollouts:
        """Samples `responses_per_prompt` responses to each prompt; the same seed gives the same responses.

        `numbers` are those of the prompts among the prompts of all processes, 0, 1, ... unless given.
        """
        ...

    def sync(self, policy: Policy, version: int) -> None:
        """Takes over the policy's weights, `version` updates old; called after every change of them."""
        ...

    def close(self) -> None:
        """Gives back what the engine holds; it samples no more."""
        ...


def concatenate(parts: Sequence[Rollouts]) -> Rollouts:
    """Joins rollouts, padding responses to the longest."""
    width = max(part.tokens.shape[1] for part in parts)
    offsets = [sum(len(part.prompts) for part in parts[:i]) for i in range(len(parts))]
    moved = [replace(part, prompt=part.prompt + offset) for part, offset in zip(parts, offsets, strict=True)]
    tensors = [part.widened(width).tensors() for part in moved]
    joined = {name: torch.cat([each[name] for each in tensors]) for name in tensors[0]}
    return Rollouts(prompts=[prompt for part in parts for prompt in part.prompts], **joined)


def widened(tensor: Tensor, width: int) -> Tensor:
    """[N, T] with zeros on the right, [N, width]; a tensor of another shape stays."""
    return torch.nn.functional.pad(tensor, (0, width - tensor.shape[1])) if tensor.dim() == 2 else tensor


# ---- weights on their way to an engine -------------------------------------------------------------------------------


def checkpoint_weights(model: PreTrainedModel, untied: Collection[str] = ()) -> Iterator[tuple[str, Tensor]]:
    """The weights as a saved checkpoint has them, which is what vLLM reads; of tied ones the first and the `untied`.

    Sharded ones come whole, one at a time and in the same order everywhere: it takes all processes. Raises
    RuntimeError at the end if something of the model was left out.
    """
    weights, left = model.state_dict(), sum(parameter.numel() for parameter in model.parameters())
    tensors = {**dict(model.named_buffers()), **dict(model.named_parameters(remove_duplicate=False))}
    first = {id(tensors[name]): name for name in reversed(weights)}
    for name, weight in weights.items():
        is_first = first[id(tensors[name])] == name
        if is_first or name in untied:
            left -= weight.numel() if is_first and isinstance(tensors[name], torch.nn.Parameter) else 0
            yield from revert_weight_conversion(model, {name: full_tensor(weight)}).items()
    if left:
        raise RuntimeError(f"{left:,} weights of {type(model).__name__} were not handed over")


@torch.no_grad()
def check_agreement(engine: RolloutEngine, policy: Policy, config: RolloutConfig, model: ModelConfig) -> None:
    """Tries the hand-over: some releases lose weights of some architectures on some machines without a word.

    Raises UserError if the engine's log-probs are not the policy's.
    """
    size = len(policy.model.get_input_embeddings().weight)  # type: ignore[arg-type]
    prompts = [[97 * number % size] for number in range(8)]
    rollouts = engine.generate(prompts, 4, Sampling(min(8, config.max_response_tokens)), seed=0)
    # As in training: some attention kernels refuse the float32 weights by themselves.
    with torch.autocast(policy.device.type, torch.bfloat16, enabled=model.precision == "bfloat16"):
        stats = policy(rollouts.responses(), 1.0)
    difference = (stats.logp.cpu() - rollouts.logp)[rollouts.mask].abs().mean().item()
    if not difference < LARGEST_DIFFERENCE:
        raise UserError(
            f"rollout.engine={config.engine}: its log-probs for {model.name} ({type(policy.model).__name__}) are not "
            f"those of transformers, {difference:.2g} nats apart per token; set rollout.engine=transformers"
        )
