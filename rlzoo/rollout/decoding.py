"""How responses are decoded: one token drawn from each row of logits, and the texts that end a response."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import torch
from torch import Tensor

from rlzoo.rollout.base import Rollouts, Sampling

BLOCK = 256
LIKELIEST = 256
"""A nucleus mostly lies within this many tokens, which are much faster to find than to sort all."""
EVERY = 8
"""Tokens after which what is written is read for a text that ends it."""

Decode = Callable[[Sequence[int]], str]


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
