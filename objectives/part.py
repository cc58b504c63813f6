"""What a part of an objective is: a frozen dataclass of parameters at one of ten stages."""

import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from enum import IntEnum
from typing import Any, ClassVar

import torch
from torch import Tensor

from objectives.batch import TokenBatch
from objectives.errors import ObjectiveError, shown


class Stage(IntEnum):
    """The stages of an objective, always run in this order."""

    REWARD = 1
    SELECT = 2
    ADVANTAGE = 3
    WEIGHT = 4
    RATIO = 5
    SURROGATE = 6
    MASK = 7
    AGGREGATE = 8
    PENALTY = 9
    SCHEDULE = 10


def parameter(default: Any, allowed: str | tuple[str, ...] | None, doc: str) -> Any:
    """Declares a parameter of a part: its default, an interval such as "[0, 1)" or a tuple of choices, its meaning."""
    return field(default=default, metadata={"allowed": allowed, "doc": doc})


@dataclass(frozen=True)
class Part:
    """One thing at one stage. Parameters are checked for type and range when the part is made."""

    name: ClassVar[str]
    stage: ClassVar[Stage]
    exclusive: ClassVar[bool] = False
    """Whether the stage holds one such part, which an addition replaces."""
    paper: ClassVar[str] = ""
    origin: ClassVar[str] = ""
    """The module that an expression names before the part, as in `origin:name`; set when the part is registered."""
    minimum_group: ClassVar[int] = 1
    """The smallest number of responses per prompt with which the part has a meaning."""

    reads: ClassVar[frozenset[str]] = frozenset()
    """The optional fields of the batch that the part always reads."""
    reads_once_moved: ClassVar[frozenset[str]] = frozenset()
    """Further fields that it reads only once the policy has moved since the rollouts."""

    def __post_init__(self) -> None:
        for item in fields(self):
            kind = typing.get_type_hints(type(self))[item.name] if isinstance(item.type, str) else item.type
            object.__setattr__(self, item.name, _checked(self.name, item, kind, getattr(self, item.name)))

    @property
    def needs(self) -> frozenset[str]:
        """What it reads with its actual parameters."""
        return self.reads

    @property
    def written(self) -> str:
        """Its name in expressions."""
        return f"{self.origin}:{self.name}" if self.origin else self.name

    @property
    def identity(self) -> str:
        """What it is, whatever else is registered: its name, behind its module if not ours, and its parameters."""
        module = type(self).__module__
        name = self.name if module.partition(".")[0] == __package__ else f"{module}:{self.name}"
        return write_term(name, {item.name: getattr(self, item.name) for item in fields(self)})

    def formula(self) -> str:
        """What the part calculates, in one line with the actual numbers; unless written, the docstring's first line."""
        return (self.__doc__ or self.name).split("\n")[0]

    def term(self) -> str:
        """The part as a term of an expression, defaults left out."""
        changed = {item.name: getattr(self, item.name) for item in fields(self)}
        return write_term(self.written, {key: value for key, value in changed.items() if value != defaults(self)[key]})


def defaults(part: Part | type[Part]) -> dict[str, Any]:
    """The default of every parameter of a part."""
    return {item.name: item.default for item in fields(part)}


def write_term(name: str, parameters: Mapping[str, Any]) -> str:
    """`name`, or `name(key=value,...)`."""
    if not parameters:
        return name
    return f"{name}({','.join(f'{key}={write_value(value)}' for key, value in parameters.items())})"


def write_value(value: Any) -> str:
    """A parameter's value as an expression writes it."""
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


class Reward(Part):
    """Shapes the reward of a response; the shapings of several parts add."""

    stage = Stage.REWARD

    def shaping(self, batch: TokenBatch) -> Tensor:
        """[N]: what is added to the reward."""
        raise NotImplementedError


class Select(Part):
    """Says which responses are trained on; several parts AND."""

    stage = Stage.SELECT
    refills: ClassVar[bool] = False
    """Whether what is dropped should be replaced by sampling further prompts."""

    def selects(self, batch: TokenBatch) -> Tensor:
        """[N] bool."""
        raise NotImplementedError


class Advantage(Part):
    """Turns the rewards of a group into advantages."""

    stage = Stage.ADVANTAGE
    exclusive = True

    def advantage(self, reward: Tensor, group: Tensor) -> Tensor:
        """[N] rewards and [N] groups -> [N] advantages; rows that stage 2 dropped take part."""
        raise NotImplementedError


class Weight(Part):
    """Weighs the advantage per token (or response); several parts multiply, additive ones add first."""

    stage = Stage.WEIGHT
    additive: ClassVar[bool] = False

    @property
    def planned(self) -> bool:
        """Whether it is calculated in the plan of each mini-batch instead of once per rollout step."""
        return False

    def weight(self, batch: TokenBatch) -> Tensor:
        """[N, T]: the factor, or the summand if additive."""
        raise NotImplementedError

    def control(self, batch: TokenBatch, state: Mapping[str, float]) -> Mapping[str, float]:
        """The state of the part's controller for this rollout step, from the last one's; {} if it has none."""
        return {}


class Ratio(Part):
    """The importance ratio."""

    stage = Stage.RATIO
    exclusive = True

    def ratio(self, rows: TokenBatch, logp: Tensor) -> Tensor:
        """[n, T] with gradient. `rows` has the advantage [n, T]; without `logp_old` the policy has not moved."""
        raise NotImplementedError


@dataclass(frozen=True)
class Bounds:
    """The trust region of the ratio: [1 - low, 1 + high], and `cap` times the advantage where that is negative.

    Each is a number or a tensor that broadcasts to [N, T].
    """

    low: float | Tensor
    high: float | Tensor
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


class Surrogate(Part):
    """The objective of a token as a function of ratio and advantage."""

    stage = Stage.SURROGATE
    exclusive = True

    def bounds(self, batch: TokenBatch) -> Bounds:
        """The bounds before modifiers, for a whole mini-batch."""
        raise NotImplementedError

    def equation(self, bounds: Bounds) -> str:
        """The objective of a token with the bounds as modified, in one line."""
        return self.formula()

    def loss(self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds) -> Tensor:
        """[n, T]: the loss of each token, to be minimised."""
        raise NotImplementedError

    def clips(self, ratio: Tensor, advantage: Tensor, bounds: Bounds) -> Tensor:
        """[n, T] bool: tokens whose gradient the bounds cut off."""
        raise NotImplementedError


class Modifier(Part):
    """Changes the bounds of the surrogate; several parts with different names collect."""

    stage = Stage.SURROGATE

    def modify(self, bounds: Bounds, batch: TokenBatch) -> Bounds:
        """The new bounds, for a whole mini-batch."""
        raise NotImplementedError

    def acts(self, ratio: Tensor, advantage: Tensor, bounds: Bounds) -> Tensor:
        """[n, T] bool: tokens whose loss the modifier changes; `bounds` are the unmodified ones."""
        raise NotImplementedError


class Mask(Part):
    """Silences the gradient of tokens; several parts AND."""

    stage = Stage.MASK

    @property
    def shrinks_denominator(self) -> bool:
        """Whether silenced tokens leave the denominator too."""
        return True

    def keeps(self, batch: TokenBatch) -> Tensor:
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
    """A term added to the loss, aggregated over all response tokens."""

    stage = Stage.PENALTY
    needs_entropy_gradient: ClassVar[bool] = False

    def penalty(self, rows: TokenBatch, logp: Tensor, entropy: Tensor | None) -> Tensor:
        """[n, T] with gradient."""
        raise NotImplementedError


class Schedule(Part):
    """The update passes over the rollouts of a step."""

    stage = Stage.SCHEDULE
    exclusive = True
    pass_count: ClassVar[int] = 1

    def passes(self, batch: TokenBatch) -> Sequence[TokenBatch]:
        """The batch of each pass, with `policy_mask` and `penalty_mask` set where a pass leaves tokens out."""
        raise NotImplementedError


def statistic(name: str, source: str) -> str:
    """The field with a statistic (`logp`, `entropy`) of the `current` policy or of the `old` one."""
    return name if source == "current" else f"{name}_old"


def over_scope(batch: TokenBatch, scope: str, function: Callable[[TokenBatch], Tensor]) -> Tensor:
    """Applies a function of a batch ([n, T] out) to the whole mini-batch, or to each micro-batch by itself."""
    if scope != "microbatch" or batch.micro_batch is None or len(batch.micro_batch) == 0:
        return function(batch)
    _, order = batch.micro_batch.sort(stable=True)
    pools = order.split(torch.unique(batch.micro_batch, return_counts=True)[1].tolist())
    return torch.cat([function(batch.rows(pool)) for pool in pools])[order.argsort()]


def quantile(values: Tensor, q: float) -> Tensor:
    """The q-quantile of [n] values, interpolated linearly; unlike torch.quantile, for any n."""
    ordered = values.sort().values
    position = round(q * (len(ordered) - 1), 9)  # a quantile that falls on a value is that value
    below = min(math.floor(position), len(ordered) - 1)
    above = min(below + 1, len(ordered) - 1)
    return torch.lerp(ordered[below], ordered[above], position - below)


def _checked(owner: str, item: Field[Any], kind: Any, value: Any) -> Any:
    kinds = typing.get_args(kind) or (kind,)
    if float in kinds and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if isinstance(value, float):
        value += 0.0  # -0 is 0
    if not any(kind is not None and isinstance(kind, type) and type(value) is kind for kind in kinds):
        names = " or ".join("none" if kind is types.NoneType else str(kind.__name__) for kind in kinds)
        raise ObjectiveError(f"{owner}: {item.name}={shown(write_value(value))} is not a {names}")
    allowed = item.metadata.get("allowed")
    if isinstance(allowed, tuple) and value not in allowed:
        raise ObjectiveError(f"{owner}: {item.name}={shown(value)} is not one of {', '.join(allowed)}")
    if isinstance(allowed, str) and value is not None and not _inside(value, allowed):
        raise ObjectiveError(f"{owner}: {item.name}={value} is outside {allowed}")
    return value


def _inside(value: float, interval: str) -> bool:
    low, high = (float(end) for end in interval[1:-1].split(","))
    above = value >= low if interval[0] == "[" else value > low
    below = value <= high if interval[-1] == "]" else value < high
    return above and below
