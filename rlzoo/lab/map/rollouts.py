"""Rollouts in the micro-language, as the batches that objectives are given."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from objectives import TokenBatch, lots
from rlzoo.lab.map.regimes import RegimeSetting

MICRO_BATCHES = 4


@dataclass(frozen=True, eq=False)
class MapRollouts:
    """A batch, and where in the table its tokens are."""

    batch: TokenBatch
    place: Tensor
    """[N, T] int: the row of each token in the table as [P * T * (V + 1), V]."""
    symbol: Tensor
    """[N, T] int: its column."""
    leverage: Tensor
    """[N, T]: the length of the derivative of its log-prob with respect to the logits of its place."""
    quarter: Tensor
    """[N, T] int: 0 for the least probable quarter of the tokens of all batches, 3 for the most probable."""


def sample(setting: RegimeSetting, batches: int, seed: int) -> list[MapRollouts]:
    """Independent batches; the same seed gives the same."""
    generator = torch.Generator().manual_seed(seed)
    probability = setting.language.log_probs(setting.sampler).exp()
    count = setting.regime.responses * setting.regime.groups
    prompt = torch.arange(len(probability)).repeat_interleave(count)
    drawn = []
    for _ in range(batches):
        response = torch.multinomial(probability, count, replacement=True, generator=generator).flatten()
        flips = torch.rand(len(response), generator=generator, dtype=torch.float64) < setting.regime.flipped
        value = setting.value[prompt, response]
        drawn.append(rollouts_of(setting, prompt, response, torch.where(flips, 1 - value, value)))
    logp = torch.cat([rollouts.batch.require("logp_old", "the map")[rollouts.batch.mask] for rollouts in drawn])
    edges = logp.quantile(torch.tensor([0.25, 0.5, 0.75], dtype=torch.float64))
    return [
        replace(rollouts, quarter=torch.bucketize(rollouts.batch.require("logp_old", "the map"), edges))
        for rollouts in drawn
    ]


def rollouts_of(setting: RegimeSetting, prompt: Tensor, response: Tensor, reward: Tensor) -> MapRollouts:
    """The batch of some responses [N] of the language to prompts [N], groups beside each other, as they were graded."""
    regime, language, number = setting.regime, setting.language, torch.arange(len(response))
    width = language.vocabulary + 1
    place = (prompt[:, None] * language.limit + torch.arange(language.limit)) * width + language.previous[response]
    symbol = language.symbols[response]
    logp, entropy = token_stats(setting.current, place, symbol)
    logp_old, entropy_old = token_stats(setting.old, place, symbol)
    batch = TokenBatch(
        mask=language.mask[response],
        length=language.length[response],
        group=number // regime.responses,
        reward=reward,
        rewards=reward[:, None],
        correct=reward.clone(),
        truncated=language.truncated[response],
        max_length=language.limit,
        logp=logp,
        entropy=entropy,
        logp_old=logp_old,
        entropy_old=entropy_old,
        sum_pi_squared_old=setting.old.softmax(-1).flatten(0, -2).square().sum(-1)[place],
        logp_sampler=token_stats(setting.sampler, place, symbol)[0],
        logp_ref=token_stats(setting.reference, place, symbol)[0],
        logp_prompt=-1.0 - 0.05 * prompt.double(),
        micro_batch=number * MICRO_BATCHES // len(number),
        lot=lots(number // regime.responses, language.limit, seed=0),
        on_policy=not regime.moved,
    )
    return MapRollouts(batch, place, symbol, _leverage(setting.current, place, symbol), torch.zeros_like(place))


def token_stats(table: Tensor, place: Tensor, symbol: Tensor) -> tuple[Tensor, Tensor]:
    """[N, T] log-probs of tokens and entropies of their places."""
    log_probs = table.log_softmax(-1).flatten(0, -2)
    entropy = -(log_probs.exp() * log_probs).sum(-1)
    return log_probs[place, symbol], entropy[place]


def _leverage(table: Tensor, place: Tensor, symbol: Tensor) -> Tensor:
    probability = table.softmax(-1).flatten(0, -2)
    square = probability.square().sum(-1)[place] - 2 * probability[place, symbol] + 1
    return square.clamp(min=0).sqrt()
