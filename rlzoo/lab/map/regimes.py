"""The regimes of the map: in each, a failure mode that methods were invented for is there, and its size is known."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from objectives import TokenBatch, random_keys
from rlzoo.lab.map.language import Language

PROMPTS = 16
RARE = 0.01
"""The probability below which a response is rare."""


@dataclass(frozen=True)
class Regime:
    """How policy, rewards and rollouts are made."""

    name: str
    says: str
    letters: int = 4
    limit: int = 6
    end: float = 0.7
    """What is added to the logit of the end."""
    forks: float = 0.7
    """The scale of the logits at the one place in four that is a fork."""
    sureness: float = 3.0
    """The scale of the logits elsewhere."""
    right: tuple[float, float] = (0.15, 0.75)
    """The share of right responses, at the first prompt and at the last."""
    favours_short: float = 0.0
    """How much more often short responses are right."""
    responses: int = 8
    """Responses of a group."""
    groups: int = 1
    """Groups of each prompt."""
    moved: float = 0.0
    """How far the policy has learnt since the rollouts: 1 for ratios up to about 2."""
    sampler_noise: float = 0.0
    """The deviation of the logits of the sampler from those of the policy."""
    flipped: float = 0.0
    """The rate at which rewards are wrong."""
    partial: bool = False
    """Whether right ones are of four degrees, as many of each."""


REGIMES = {
    regime.name: regime
    for regime in (
        Regime("on_policy", "the policy that samples is the policy that learns; 15 to 75 % right"),
        Regime("stale", "the policy has moved since the rollouts, as late in a step of many updates", moved=1.0),
        Regime(
            "slightly_stale",
            "the policy has moved little, as on the leaderboards: the clip of GRPO takes 0.3 % of tokens",
            moved=0.2,
        ),
        Regime("mismatched", "the engine samples with other logits than the trainer's", sampler_noise=0.4),
        Regime("hard", "one response in fifteen is right", right=(1 / 15, 1 / 15)),
        Regime(
            "long",
            "up to ten tokens, many cut off, right ones short",
            2,
            10,
            -2.0,
            right=(0.1, 0.5),
            favours_short=0.08,
        ),
        Regime("sharp", "low entropy: most places are nearly certain", forks=1.5, sureness=8.0),
        Regime("wrong_rewards", "one reward in five is wrong", flipped=0.2),
        Regime("partial_rewards", "a response may earn 0, 1/4, 1/2, 3/4 or 1", partial=True),
        Regime("small_groups", "two responses per prompt, 64 groups", responses=2, groups=4),
        Regime("large_groups", "32 responses per prompt", responses=32),
    )
}


@dataclass(frozen=True, eq=False)
class RegimeSetting:
    """A regime made: tables [P, T, V + 1, V], and what each of the responses [P, R] earns."""

    regime: Regime
    language: Language
    sampler: Tensor
    """The table that rollouts are sampled from."""
    old: Tensor
    """The trainer's policy when they are."""
    current: Tensor
    """The policy that is updated."""
    reference: Tensor
    teacher: Tensor
    """The policy from which distillation learns: it gives right responses more probability."""
    value: Tensor
    """[P, R]: the true reward, from 0 to 1."""

    @cached_property
    def right(self) -> Tensor:
        """[P, R]: 1 for a full reward."""
        return (self.value == 1).double()

    @cached_property
    def is_rare(self) -> Tensor:
        """[P, R] bool: responses that the policy seldom gave when rollouts were sampled."""
        return self.language.log_probs(self.old).exp() < RARE


def make_setting(regime: Regime) -> RegimeSetting:
    """The same one every time."""
    generator = torch.Generator().manual_seed(5)
    language = Language(regime.letters, regime.limit)
    old = _policy(regime, language, generator)
    value = _rewards(regime, language, old, generator)
    direction = _reward_gradient(language, old, value)
    current = old + regime.moved * (0.2 * _normal(old.shape, generator) + 1.2 * direction) if regime.moved else old
    return RegimeSetting(
        regime,
        language,
        sampler=old + regime.sampler_noise * _normal(old.shape, generator),
        old=old,
        current=current,
        reference=old + 0.3 * _normal(old.shape, generator),
        teacher=old + 3.0 * direction,
        value=value,
    )


def _normal(shape: torch.Size | tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def _policy(regime: Regime, language: Language, generator: torch.Generator) -> Tensor:
    """As of a language model: one place in four is a fork, the others are nearly certain."""
    shape = (PROMPTS, language.limit, language.vocabulary + 1)
    is_fork = torch.rand((*shape, 1), generator=generator, dtype=torch.float64) < 0.25
    table = _normal((*shape, language.vocabulary), generator)
    table = table * torch.where(is_fork, regime.forks, regime.sureness)
    table[..., language.letters] = table[..., language.letters] * 0.5 + regime.end
    return table


def _rewards(regime: Regime, language: Language, old: Tensor, generator: torch.Generator) -> Tensor:
    """[P, R]: finished responses in a random order are right until they have the prompt's share of probability."""
    probability = language.log_probs(old).exp() * ~language.truncated
    share = torch.linspace(*regime.right, len(old), dtype=torch.float64)
    order = torch.rand(probability.shape, generator=generator, dtype=torch.float64)
    order = order + regime.favours_short * language.length
    order = order + 10.0 * (language.truncated | (probability > share[:, None] / 4))  # a likely one would be all of it
    place = order.argsort(1)
    reached = probability.gather(1, place).cumsum(1)
    levels = (1.0, 0.75, 0.5, 0.25) if regime.partial else (1.0,)
    value = torch.zeros_like(probability)
    for number, level in reversed(list(enumerate(levels, 1))):
        earns = (reached <= share[:, None] * number / len(levels)).double() * level
        value = torch.where(torch.zeros_like(value).scatter(1, place, earns) > 0, level, value)
    return value * ~language.truncated


def _reward_gradient(language: Language, old: Tensor, value: Tensor) -> Tensor:
    """The gradient of the expected reward at a table, scaled to a largest entry of 1."""
    table = old.clone().requires_grad_()
    (gradient,) = torch.autograd.grad((language.log_probs(table).exp() * value).sum(), table)
    return gradient / gradient.abs().max()


# ---- quantities ------------------------------------------------------------------------------------------------------


QUANTITIES: Mapping[str, str] = {
    "reward": "expected reward",
    "pass_8": "pass@8",
    "entropy": "entropy of responses (nats)",
    "length_right": "length of right responses",
    "length_wrong": "length of wrong responses",
    "distinct_right": "different right responses among 8",
    "log_rare_right": "log-probability of rare right responses",
}
"""Quantity -> what it is; all are means over prompts."""
SAMPLES = 8


def quantities(setting: RegimeSetting, table: Tensor) -> Tensor:
    """[Q] in the order of `QUANTITIES`, with the table's gradient."""
    log_probs, right = setting.language.log_probs(table), setting.right
    probability, length = log_probs.exp(), setting.language.length.double()
    passed = (probability * right).sum(1)
    rare = right * setting.is_rare
    there = rare.any(1)
    return torch.stack(
        [
            (probability * setting.value).sum(1).mean(),
            (1 - (1 - passed) ** SAMPLES).mean(),
            -(probability * log_probs).sum(1).mean(),
            ((probability * right * length).sum(1) / passed).mean(),
            ((probability * (1 - right) * length).sum(1) / (1 - passed)).mean(),
            ((1 - (1 - probability) ** SAMPLES) * right).sum(1).mean(),
            (probability * rare).sum(1)[there].log().mean(),
        ]
    )


def slopes(setting: RegimeSetting) -> Tensor:
    """[Q, P, T, V + 1, V]: the derivative of each quantity at the current policy; the first is the policy gradient."""
    table = setting.current.clone().requires_grad_()
    values = quantities(setting, table)
    return torch.stack([torch.autograd.grad(value, table, retain_graph=True)[0] for value in values])


@dataclass(frozen=True)
class EntropyChange:
    """What a step does to the sum of the entropies along a response: as predicted, and exactly."""

    predicted: float
    """Minus the covariance of log-probs and the change of logits at each place, as often as it was visited.

    Cui et al., The Entropy Mechanism (arXiv:2505.22617), theorem 1.
    """
    same_places: float
    """Exactly, each place as often as it was visited before."""
    all: float
    """Exactly: responses also come to other places."""


def entropy_change(setting: RegimeSetting, change: Tensor) -> EntropyChange:
    """Of a change of the logits of the current policy."""
    table = setting.current
    log_probs, probability, visits = table.log_softmax(-1), table.softmax(-1), setting.language.visits(table)
    centred = change - (probability * change).sum(-1, keepdim=True)
    covariance = (probability * log_probs * centred).sum(-1)
    before, after = _entropies(table), _entropies(table + change)
    visits_after = setting.language.visits(table + change)
    return EntropyChange(
        predicted=-float((visits * covariance).sum()) / len(table),
        same_places=float((visits * (after - before)).sum()) / len(table),
        all=float((visits_after * after - visits * before).sum()) / len(table),
    )


def _entropies(table: Tensor) -> Tensor:
    log_probs = table.log_softmax(-1)
    return -(log_probs.exp() * log_probs).sum(-1)


# ---- rollouts --------------------------------------------------------------------------------------------------------


MICRO_BATCHES = 4


@dataclass(frozen=True, eq=False)
class MapRollouts:
    """A batch, and where in the table its tokens are."""

    batch: TokenBatch
    place: Tensor
    """[N, T] int: the row of each token in the table as [P * T * (V + 1), V]."""
    symbol: Tensor
    """[N, T] int: its column."""


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
    return drawn


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
        logp_teacher=token_stats(setting.teacher, place, symbol)[0],
        logp_prompt=-1.0 - 0.05 * prompt.double(),
        micro_batch=number * MICRO_BATCHES // len(number),
        random_key=random_keys(number // regime.responses, language.limit, seed=0),
        on_policy=not regime.moved,
    )
    return MapRollouts(batch, place, symbol)


def token_stats(table: Tensor, place: Tensor, symbol: Tensor) -> tuple[Tensor, Tensor]:
    """[N, T] log-probs of tokens and entropies of their places."""
    log_probs = table.log_softmax(-1).flatten(0, -2)
    entropy = -(log_probs.exp() * log_probs).sum(-1)
    return log_probs[place, symbol], entropy[place]
