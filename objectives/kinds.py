"""The kinds of parts, stage by stage: what each must say, of which shape, and what it may read."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from objectives.batch import Prepared, TokenBatch
from objectives.errors import ObjectiveError
from objectives.lazy import Tensor, torch
from objectives.part import Part, Stage


class Reward(Part):
    """Shapes the reward of a response; the shapings of several parts add."""

    stage = Stage.REWARD
    late: ClassVar[bool] = False
    """Whether it reads statistics of the policy: such a part comes after selection."""

    @property
    def per_token(self) -> bool:
        """Whether it shapes rewards per token, which not every advantage takes."""
        return False

    def check(self, parts: Mapping[str, Part]) -> None:
        super().check(parts)
        reader = next(part for part in parts.values() if isinstance(part, Advantage))
        if self.per_token and not reader.takes_token_rewards:
            raise ObjectiveError(
                f"{self.term()} makes one reward per token, but {reader.name} takes one per response: "
                f"leave one of them out, or take global_norm"
            )

    def shaping(self, batch: TokenBatch) -> Tensor:
        """[N]: what is added to the reward; [N, T] if `per_token`, which only a late part may be."""
        raise NotImplementedError


class Select(Part):
    """Says which responses are trained on; several parts AND."""

    stage = Stage.SELECT
    refills: ClassVar[bool] = False
    """Whether what is dropped should be replaced by sampling further prompts."""
    late: ClassVar[bool] = False
    """Whether it reads advantages: such a part comes after stage 3, and what an environment wrote stays."""

    def selects(self, batch: TokenBatch) -> Tensor:
        """[N] bool; [N, T] where it is `late`, with the advantage [N, T]."""
        raise NotImplementedError


class Advantage(Part):
    """Turns rewards into advantages.

    `advantage` is all that a method needs which looks at the rewards of a group; others write `of`.
    """

    stage = Stage.ADVANTAGE
    exclusive = True
    reads = frozenset({"reward", "group"})
    takes_token_rewards: ClassVar[bool] = False
    """Whether `of` understands rewards [N, T]."""
    learns_from_equal_groups: ClassVar[bool] = False
    """Whether groups that are right or wrong as a whole are part of its idea."""

    @property
    def centred(self) -> bool:
        """Whether responses of a group with equal rewards have an advantage of exactly zero."""
        return True

    def notices(self, parts: Mapping[str, Part]) -> Iterator[str]:
        yield from super().notices(parts)
        for part in parts.values():
            if self.learns_from_equal_groups and isinstance(part, Select) and part.refills:
                groups = "groups that are right or wrong as a whole"
                yield f"{part.name}: drops {groups}, from which {self.name} learns too. Write -{part.qualified_name}."

    def of(self, batch: TokenBatch) -> Tensor:
        """[N] or [N, T] advantages of the rollouts of a step.

        Rows that stage 2 dropped take part if others of their group are left; the `mask` of the rest is empty.
        """
        reward = batch.require("reward", self.name)
        if reward.dim() == 2:
            raise ObjectiveError(f"{self.name} takes one reward per response, but the batch has one per token")
        return self.advantage(reward, batch.require("group", self.name))

    def advantage(self, reward: Tensor, group: Tensor) -> Tensor:
        """[N] rewards and [N] groups -> [N] advantages."""
        raise NotImplementedError


class Weight(Part):
    """Weighs the advantage per token or response: a factor, or a summand if `additive`.

    What is settled with the rollouts comes before what is `planned`; in each of the two, summands are added first.
    """

    stage = Stage.WEIGHT
    additive: ClassVar[bool] = False

    @property
    def planned(self) -> bool:
        """Whether it is calculated in the plan of each mini-batch instead of once per rollout step.

        Unless written, where its parameter `source` is the current policy, or its `scope` the micro-batch.
        """
        return getattr(self, "source", "") == "current" or getattr(self, "scope", "") == "microbatch"

    def weight(self, batch: Prepared) -> Tensor:
        """[N, T]: the factor, or the summand if additive.

        `batch.advantage` has no weight in it yet; where `planned`, it has all those that are not.
        """
        raise NotImplementedError


def in_working_order(weights: Iterable[Weight]) -> list[Weight]:
    """Weights as they are carried out, and as equations print them."""
    return sorted(weights, key=lambda part: (part.planned, not part.additive))


class Ratio(Part):
    """The importance ratio."""

    stage = Stage.RATIO
    exclusive = True

    def ratio(self, rows: Prepared, logp: Tensor) -> Tensor:
        """[n, T] with gradient. `rows` has the advantage [n, T]."""
        raise NotImplementedError


@dataclass(frozen=True)
class Bounds:
    """The trust region of the ratio: [1 - low, 1 + high], and `cap` times the advantage where that is negative.

    Each is a number or a tensor that broadcasts to [N, T]; infinite where there is none.
    """

    low: float | Tensor = math.inf
    high: float | Tensor = math.inf
    cap: float | Tensor = math.inf

    def rows(self, index: Tensor | slice, width: int) -> "Bounds":
        """The bounds of some rows and their first `width` positions."""

        def part(value: float | Tensor) -> float | Tensor:
            if not isinstance(value, Tensor) or value.dim() == 0:
                return value
            wide = value[None] if value.dim() == 1 else value
            rows = wide if wide.shape[0] == 1 else wide[index]
            return rows if rows.shape[1] == 1 else rows[:, :width]

        return Bounds(part(self.low), part(self.high), part(self.cap))


Extra = Mapping[str, Tensor]
"""What else a loss takes: [N] or [N, T] by name."""


class Surrogate(Part):
    """The objective of a token as a function of ratio and advantage."""

    stage = Stage.SURROGATE
    exclusive = True
    reads_bounds: ClassVar[frozenset[str]] = frozenset()
    """Which of `low`, `high` and `cap` it heeds, so that modifiers may set them."""
    follows_advantage: ClassVar[bool] = True
    """Whether a token whose advantage is zero has no gradient; if not, weights may not be added."""
    reads_ratio: ClassVar[bool] = True
    """Whether the importance ratio has a say; if not, no other than grpo's may be added."""

    def bounds(self, batch: Prepared) -> Bounds:
        """The bounds before modifiers, for a whole mini-batch."""
        return Bounds()

    def extra(self, batch: Prepared) -> Extra:
        """What else `loss` takes of a whole mini-batch, settled in the plan."""
        return {}

    def loss(self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Extra) -> Tensor:
        """[n, T] with gradient. `bounds` and `extra` are the rows' part of the plan."""
        raise NotImplementedError

    def clips(self, ratio: Tensor, advantage: Tensor, bounds: Bounds) -> Tensor:
        """[n, T] bool: tokens whose gradient the bounds cut off."""
        return torch.zeros_like(ratio, dtype=torch.bool)

    def bounded(self, ratio: Tensor, advantage: Tensor, bounds: Bounds) -> Tensor:
        """[n, T] bool: tokens whose gradient the bounds change, which are those that metrics count as touched."""
        return self.clips(ratio, advantage, bounds)

    def numbers(self) -> Mapping[str, str]:
        """The bounds before modifiers, as `equation` writes them."""
        return {}

    def equation(self, numbers: Mapping[str, str]) -> str:
        """The objective of a token in one line; `numbers` are the bounds as modified."""
        return self.formula()

    def formula(self) -> str:
        has_equation = type(self).equation is not Surrogate.equation
        return self.equation(self.numbers()) if has_equation else super().formula()


class Modifier(Part):
    """Changes bounds of the surrogate; at most one part sets each of them."""

    stage = Stage.SURROGATE
    acts_on_policy = False
    sets: ClassVar[frozenset[str]]
    """Which of `low`, `high` and `cap`."""

    def modify(self, bounds: Bounds, batch: Prepared) -> Bounds:
        """The new bounds, for a whole mini-batch."""
        raise NotImplementedError

    def numbers(self) -> Mapping[str, str]:
        """The bounds that it sets, as equations write them."""
        return dict.fromkeys(self.sets, self.name)

    def formula(self) -> str:
        if not self.where():
            return super().formula()
        bounds = [self.numbers()[name] for name in sorted(self.sets, reverse=True)]
        return f"clip bounds {' and '.join(bounds)}, {self.where()}"


class Mask(Part):
    """Masks the gradient of tokens; several parts AND."""

    stage = Stage.MASK
    spares_clipped: ClassVar[bool] = False
    """Whether it chooses among tokens that the surrogate does not clip already: `clipped` is in its batch."""

    @property
    def shrinks_denominator(self) -> bool:
        """Whether masked tokens leave the denominator too."""
        return True

    def keeps(self, batch: Prepared) -> Tensor:
        """[N, T] bool over a whole mini-batch with current statistics and the advantage [N, T]."""
        raise NotImplementedError


class Aggregate(Part):
    """Settles the denominators."""

    stage = Stage.AGGREGATE
    exclusive = True

    def coefficients(self, batch: TokenBatch, counted: Tensor) -> Tensor:
        """[N, T]: what each token's loss is multiplied by before everything is summed.

        `counted` [N, T] bool are the tokens in the denominators; every token of the batch gets a coefficient.
        """
        raise NotImplementedError


class Penalty(Part):
    """A term added to the loss."""

    stage = Stage.PENALTY
    needs_entropy_gradient: ClassVar[bool] = False
    chooses: ClassVar[bool] = False
    """Whether it is on some tokens only, those with a coefficient that is not zero."""
    learns_observations: ClassVar[bool] = False
    """Whether it is on what the environment wrote, and on nothing else: such a part reads `writer`."""

    def coefficients(self, batch: Prepared, aggregate: Aggregate) -> Tensor:
        """[N, T]: what each token's penalty is multiplied by; unless written, aggregated over all response tokens."""
        return aggregate.coefficients(batch, batch.mask)

    def penalty(self, rows: Prepared, logp: Tensor, entropy: Tensor | None) -> Tensor:
        """[n, T] with gradient."""
        raise NotImplementedError


class Schedule(Part):
    """The update passes over the rollouts of a step."""

    stage = Stage.SCHEDULE
    exclusive = True

    @property
    def pass_count(self) -> int:
        """How many passes there are."""
        return 1

    def passes(self, batch: Prepared) -> Sequence[Prepared]:
        """The batch of each pass, with `policy_mask` and `penalty_mask` set where a pass leaves tokens out.

        `batch.record(self.name, Action.GROUP, tokens)` has tokens counted that the schedule tells from the others.
        """
        raise NotImplementedError
