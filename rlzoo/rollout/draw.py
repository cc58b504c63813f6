"""One token drawn from each row of logits, with its log-prob and the entropy of what it was drawn from."""

from functools import cache

import numpy as np
import torch
from torch import Tensor

from rlzoo.rollout.base import Sampling

BLOCK = 256
LIKELIEST = 256
"""A nucleus mostly lies within so many tokens, which are much faster to find than to sort all."""


def uniform(seed: int, step: int, lot: Tensor) -> Tensor:
    """[N] numbers in [0, 1) that depend on seed, step and `lot` [N] int alone, whatever other lots there are."""
    drawn = np.random.default_rng([seed, step]).random(int(lot.max()) + 1, dtype=np.float32)
    return torch.from_numpy(drawn)[lot]


def draw(logits: Tensor, sampling: Sampling, uniform: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens [n], their log-probs [n] and the entropies [n] in nats of the distributions, from `logits` [n, V] float32.

    The distribution is softmax(logits / temperature) without tokens below `min_p` times the likeliest, cut to the
    `top_k` likeliest, then to the smallest nucleus of mass `top_p`, and renormalised.
    At temperature 0 the token is the likeliest, and log-prob and entropy are those of softmax(logits).
    `sampling.noise` perturbs the logits first, and what is said is of the perturbed ones. `logits` are overwritten.
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
