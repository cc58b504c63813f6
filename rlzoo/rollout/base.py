"""The rollout seam: an engine that samples responses with the current policy, and how tokens are drawn and cut."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import ClassVar, Protocol, Self

import numpy as np
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
BLOCK = 256
LIKELIEST = 256
"""A nucleus mostly lies within this many tokens, which are much faster to find than to sort all."""
EVERY = 8
"""Tokens after which what is written is read for a text that ends it."""

Decode = Callable[[Sequence[int]], str]


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


# ---- draws -----------------------------------------------------------------------------------------------------------


def uniform(seed: int, step: int, rows: Tensor) -> Tensor:
    """[N] numbers in [0, 1) that depend on seed, step and row number alone, whatever other `rows` [N] there are."""
    drawn = np.random.default_rng([seed, step]).random(int(rows.max()) + 1, dtype=np.float32)
    return torch.from_numpy(drawn)[rows]


def draw(logits: Tensor, sampling: Sampling, uniform: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens [n], their log-probs [n] and the entropies [n] in nats of the distributions, from `logits` [n, V] float32.

    The distribution is softmax(logits / temperature) without tokens below `min_p` times the likeliest, cut to the
    `top_k` likeliest, then to the smallest nucleus of mass `top_p`, and renormalised.
    At temperature 0 the token is the likeliest, and log-prob and entropy are those of softmax(logits).
    `sampling.noise` perturbs the logits first; log-probs and entropies are those with it. `logits` are overwritten.
    """
    if sampling.noise:
        logits += offset(sampling.noise, logits.shape[1]).to(logits)
    if sampling.temperature > 0:
        logits /= sampling.temperature
    logits -= logits.amax(1, keepdim=True)
    weights = logits.exp()
    if sampling.temperature > 0 and sampling.min_p > 0:
        weights = weights.where(weights >= sampling.min_p, 0)  # the likeliest has weight 1
    if sampling.temperature > 0 and 0 < sampling.top_k < weights.shape[1]:
        weights = weights.where(weights >= weights.topk(sampling.top_k).values[:, -1:], 0)
    if sampling.temperature > 0 and sampling.top_p < 1:
        weights = weights.where(weights >= _nucleus_edge(weights, sampling.top_p), 0)
    tokens = weights.argmax(1) if sampling.temperature == 0 else _inverse_cdf(weights, uniform)
    total = weights.sum(1)
    logp = logits.gather(1, tokens[:, None]).squeeze(1) - total.log()
    return tokens, logp, total.log() - torch.linalg.vecdot(weights, logits) / total


@cache
def offset(deviation: float, tokens: int) -> Tensor:
    """[V] what is added to the logit of each token, always the same, normal with this standard deviation."""
    return deviation * torch.randn(tokens, generator=torch.Generator().manual_seed(0))


def _nucleus_edge(weights: Tensor, top_p: float) -> Tensor:
    """[n, 1] the smallest weight in each row's nucleus: the likeliest tokens that reach mass `top_p` together."""
    needed = top_p * weights.sum(1, keepdim=True)
    likeliest = weights.topk(min(LIKELIEST, weights.shape[1])).values
    mass = likeliest.cumsum(1)
    edge = likeliest.gather(1, (mass < needed).sum(1, keepdim=True).clamp(max=likeliest.shape[1] - 1))
    wider = (mass[:, -1:] < needed).squeeze(1).nonzero().squeeze(1)
    if len(wider):
        ordered = weights[wider].sort(descending=True).values
        count = (ordered.cumsum(1) < needed[wider]).sum(1, keepdim=True).clamp(max=ordered.shape[1] - 1)
        edge[wider] = ordered.gather(1, count)
    return edge


def _inverse_cdf(weights: Tensor, uniform: Tensor) -> Tensor:
    """[n] tokens in proportion to `weights` [n, V]: first the block of the vocabulary, then the token in the block."""
    spare = -weights.shape[1] % BLOCK
    blocks = (torch.nn.functional.pad(weights, (0, spare)) if spare else weights).unflatten(1, (-1, BLOCK))
    mass = blocks.sum(2).cumsum(1)
    wanted = uniform[:, None] * mass[:, -1:]
    block = _first_beyond(mass, wanted)
    inside = blocks[torch.arange(len(weights), device=weights.device), block.squeeze(1)].cumsum(1)
    wanted = wanted - (mass.gather(1, block) - inside[:, -1:])
    return (block * BLOCK + _first_beyond(inside, wanted.clamp(min=0))).squeeze(1)


def _first_beyond(cumulative: Tensor, wanted: Tensor) -> Tensor:
    """[n, 1] the first position whose cumulative mass exceeds `wanted` [n, 1], one of positive mass in any case."""
    end = cumulative[:, -1:]
    return torch.searchsorted(cumulative, torch.minimum(wanted, end.nextafter(torch.zeros_like(end))), right=True)


# ---- texts that end a response ---------------------------------------------------------------------------------------


def text_before(text: str, stop: Sequence[str]) -> str | None:
    """What stands before the first of the stop texts; None if there is none."""
    places = [place for place in map(text.find, stop) if place >= 0]
    return text[: min(places)] if places else None


def cut_at_stop(rollouts: Rollouts, stop: Sequence[str], decode: Decode) -> tuple[Rollouts, list[str]]:
    """The responses up to the token that completes a stop text, and their texts without it; cut ones have ended."""
    if not stop:
        pairs = zip(rollouts.tokens.tolist(), rollouts.lengths.tolist(), strict=True)
        return rollouts, [decode(tokens[:length]) for tokens, length in pairs]
    lengths, truncated, texts = rollouts.lengths.clone(), rollouts.truncated.clone(), list[str]()
    for row, (tokens, length) in enumerate(zip(rollouts.tokens.tolist(), rollouts.lengths.tolist(), strict=True)):
        text = decode(tokens[:length])
        before = text_before(text, stop)
        texts.append(text if before is None else before)
        if before is not None:
            lengths[row], truncated[row] = _shortest(tokens[:length], stop, decode), False
    mask = rollouts.mask & (torch.arange(rollouts.mask.shape[1]) < lengths[:, None])
    cut = {name: getattr(rollouts, name).where(mask, 0) for name in ("tokens", "logp", "entropy", "version")}
    return replace(rollouts, lengths=lengths, truncated=truncated, mask=mask, **cut), texts


def _shortest(tokens: Sequence[int], stop: Sequence[str], decode: Decode) -> int:
    """How many tokens it takes until the text has a stop text."""
    low, high = 0, len(tokens)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if text_before(decode(tokens[:middle]), stop) is not None else (middle, high)
    return high


class Watch:
    """Sees which responses have a stop text, so that an engine need not go on with them; [n] rows as they come."""

    def __init__(self, stop: Sequence[str], decode: Decode) -> None:
        self.stop, self.decode = stop, decode
        self.window = EVERY + max(len(text.encode()) for text in stop)  # no token is less than a byte
        self.written: dict[int, list[int]] = {}

    def go_on(self, rows: Sequence[int], tokens: Sequence[int]) -> list[bool]:
        """Takes a further token of each row; says which rows have no stop text, as far as it has looked."""
        for row, token in zip(rows, tokens, strict=True):
            self.written.setdefault(row, []).append(token)
        if len(self.written[rows[0]]) % EVERY:
            return [True] * len(rows)
        return [not (self._has(row, self.window) and self._has(row, 0)) for row in rows]

    def _has(self, row: int, last: int) -> bool:
        """Whether the text of the `last` tokens, or of all, has one."""
        return text_before(self.decode(self.written[row][-last:]), self.stop) is not None


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
