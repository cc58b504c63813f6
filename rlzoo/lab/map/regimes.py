"""The regimes of the map: in each, a trouble that methods were invented for is there, and its size is known."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

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
    moved: bool = False
    """Whether the policy has learnt since the rollouts."""
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
        Regime("stale", "the policy has moved since the rollouts, as late in a step of many updates", moved=True),
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
    current = _moved(language, old, value, generator) if regime.moved else old
    return RegimeSetting(
        regime,
        language,
        sampler=old + regime.sampler_noise * _normal(old.shape, generator),
        old=old,
        current=current,
        reference=old + 0.3 * _normal(old.shape, generator),
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


def _moved(language: Language, old: Tensor, value: Tensor, generator: torch.Generator) -> Tensor:
    """Towards the reward, and with the noise of learning: ratios up to about 2."""
    table = old.clone().requires_grad_()
    (gradient,) = torch.autograd.grad((language.log_probs(table).exp() * value).sum(), table)
    return old + 0.2 * _normal(old.shape, generator) + 1.2 * gradient / gradient.abs().max()
