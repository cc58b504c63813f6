"""What a part of an objective is: a frozen dataclass of parameters at one of ten stages, each with its kind of part."""

import math
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from enum import IntEnum
from typing import Any, ClassVar

from objectives.batch import Prepared, TokenBatch, scope_reads, statistic
from objectives.definitions import module_name
from objectives.errors import ObjectiveError, shown
from objectives.ops import Tensor, torch


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


class _Asked:
    """Stands for the value of a parameter that has to be given, because none is published."""

    def __str__(self) -> str:
        return "?"


REQUIRED: Any = _Asked()


class _Nothing:
    """Stands for None in a formula, whatever format is asked for."""

    def __format__(self, wanted: str) -> str:
        return "none"


_MODELS = {"logp_ref": "the reference model", "logp_teacher": "the teacher"}
"""Field of a batch that takes a further model -> the model."""


def parameter(
    default: Any, allowed: str | tuple[str, ...] | None, doc: str, example: Any = None, idle: float | None = None
) -> Any:
    """Declares a parameter of a part: its default, an interval such as "[0, 1)" or a tuple of choices, its meaning.

    One that has to be given, because no value is published, has an `example` instead of a default. `idle` is a value
    at which the part changes nothing; a part changes nothing where all parameters that declare one have it.
    """
    return field(default=default, metadata={"allowed": allowed, "doc": doc, "example": example, "idle": idle})


@dataclass(frozen=True)
class Part:
    """One thing at one stage. Parameters are checked for type and range when the part is made."""

    name: ClassVar[str]
    """The word that expressions use; unless it or a base that is no part has one, the class's name in snake case."""
    stage: ClassVar[Stage]
    exclusive: ClassVar[bool] = False
    """Whether the stage holds one such part, which an addition replaces."""
    excludes: ClassVar[frozenset[str]] = frozenset()
    """Names of parts of other stages beside which it has no meaning."""
    paper: ClassVar[str] = ""
    """Unless written, that of the first recipe in its module which contributes the part."""
    printed: ClassVar[str] = ""
    """Its formula, with parameters as in `str.format`: "A *= sigmoid(A / {eta:g})"."""
    explained: ClassVar[str] = ""
    """What names in its formula stand for, written in the same way."""
    failure_modes: ClassVar[tuple[str, ...]] = ()
    """What it addresses, the most important first: tags of `objectives.FAILURE_MODES`."""
    origin: ClassVar[str] = ""
    """The module that an expression names before the part, as in `origin:name`; set when the part is registered."""
    purpose: ClassVar[str] = ""
    """What one part of an objective usually does alone, in words; two parts with the same purpose get a notice."""
    minimum_group: ClassVar[int] = 1
    """The smallest number of responses per prompt with which the part has a meaning."""

    reads: ClassVar[frozenset[str]] = frozenset()
    """The optional fields of the batch that the part always reads.

    `logp:source` is the field that the parameter `source` names: `logp` for `current`, or else `logp_old`, ...
    """
    reads_once_moved: ClassVar[frozenset[str]] = frozenset()
    """Further fields that it reads only once the policy has moved since the rollouts."""
    acts_on_policy: ClassVar[bool] = True
    """Whether it can act in an update of the policy that sampled, in which every ratio is 1."""

    def __post_init__(self) -> None:
        for item in fields(self):
            kind = typing.get_type_hints(type(self))[item.name] if isinstance(item.type, str) else item.type
            object.__setattr__(self, item.name, _checked(self.name, item, kind, getattr(self, item.name)))

    @property
    def goes_by_reward(self) -> bool:
        """Whether it tells good responses from bad, by rewards or by the advantage that they give."""
        return False

    @property
    def learning_group(self) -> int:
        """The smallest number of responses per prompt whose advantages are not all 0 whatever the rewards."""
        return self.minimum_group

    @property
    def needs(self) -> frozenset[str]:
        """What it reads with its actual parameters; one named `scope` takes the field that tells its pools apart."""
        named = (name.partition(":") for name in self.reads)
        reads = {statistic(name, getattr(self, setting)) if setting else name for name, _, setting in named}
        return frozenset(reads) | scope_reads(getattr(self, "scope", ""))

    @property
    def required_parameters(self) -> tuple[str, ...]:
        """Its parameters that still have to be given."""
        return tuple(item.name for item in fields(self) if getattr(self, item.name) is REQUIRED)

    @classmethod
    def example(cls, name: str) -> str:
        """A value for a parameter that has to be given, as `name=value`; no paper's where the part has no default."""
        item = cls.__dataclass_fields__[name]
        value = item.metadata["example"] if item.default is REQUIRED else item.default
        return f"{name}={value:g}"

    @property
    def qualified_name(self) -> str:
        """Its name in expressions, behind its module where that is needed."""
        return f"{self.origin}:{self.name}" if self.origin else self.name

    @property
    def identity(self) -> str:
        """What it is, whatever else is registered: its name, behind its module if not ours, and its parameters."""
        module = module_name(type(self).__module__)
        name = self.name if module.partition(".")[0] == __package__ else f"{module}:{self.name}"
        return write_term(name, {item.name: getattr(self, item.name) for item in fields(self)})

    def check(self, parts: Mapping[str, "Part"]) -> None:
        """Raises ObjectiveError if it has no meaning beside the parts of an objective, by name."""
        for name in sorted(self.excludes & parts.keys()):
            raise ObjectiveError(f"{self.name} and {name} do not go together: leave one of them out")

    @property
    def is_idle(self) -> bool:
        """Whether it changes nothing with its actual parameters."""
        idle = {item.name: item.metadata.get("idle") for item in fields(self)}
        declared = {name: value for name, value in idle.items() if value is not None}
        return bool(declared) and all(getattr(self, name) == value for name, value in declared.items())

    def notices(self, parts: Mapping[str, "Part"]) -> Iterator[str]:
        """Lines about what is allowed beside the parts of an objective, by name, and may not be what it seems."""
        if self.is_idle:
            loaded = "".join(f", and {model} is loaded for it" for name, model in _MODELS.items() if name in self.needs)
            yield f"{self.term()}: changes nothing{loaded}. Write -{self.qualified_name}."
        for other in parts.values():
            if self.purpose and self.purpose == other.purpose and self.name < other.name:
                either = f"-{self.qualified_name} or -{other.qualified_name}"
                yield f"{self.name}, {other.name}: each is {self.purpose}. Write {either}."

    def control(self, batch: Prepared, state: Mapping[str, float]) -> Mapping[str, float]:
        """The state of the part's controller for this rollout step, from the last one's; {} if it has none.

        For parts of stages 4 to 10, which read it as `batch.state_of(self.name)`. `batch` has the rollouts of the step,
        all mini-batches, and the advantage before weights; a first step's `state` is {}.
        """
        return {}

    def formula(self) -> str:
        """What the part calculates, in one line with the actual numbers: `printed`, or the docstring's first line."""
        return self._filled("printed") or (self.__doc__ or self.name).split("\n")[0]

    def where(self) -> str:
        """What names stand for that it puts into equations; empty if they need no word."""
        return self._filled("explained")

    def _filled(self, name: str) -> str:
        """The text of that name with the actual numbers in it."""
        text = getattr(self, name)
        try:
            return str(
                text.format_map({key: _Nothing() if value is None else value for key, value in vars(self).items()})
            )
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            raise ObjectiveError(
                f"{self.name}: {name} = {shown(text)!r} does not fit its parameters "
                f"({type(error).__name__}: {shown(error)}). Write each as {{name}}, or as {{name:g}} if it is a number."
            ) from None

    def parameters(self) -> list[dict[str, Any]]:
        """Each parameter as it is declared, and its value here: name, value, default, allowed, meaning; plain data.

        `?` stands where there is none, because none is published.
        """
        return [
            {
                "name": item.name,
                "value": _plain(getattr(self, item.name)),
                "default": _plain(item.default),
                "allowed": _allowed(item),
                "meaning": item.metadata.get("doc", ""),
            }
            for item in fields(self)
        ]

    def term(self) -> str:
        """The part as a term of an expression, defaults left out."""
        changed = {item.name: getattr(self, item.name) for item in fields(self)}
        return write_term(
            self.qualified_name, {key: value for key, value in changed.items() if value != defaults(self)[key]}
        )


def _plain(value: Any) -> Any:
    return str(value) if value is REQUIRED else value


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


def _checked(owner: str, item: Field[Any], kind: Any, value: Any) -> Any:
    if value is REQUIRED:
        return value
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


def _allowed(item: Field[Any]) -> str:
    """The values that a parameter may have, in words."""
    allowed = item.metadata.get("allowed")
    if isinstance(allowed, tuple):
        return ", ".join(allowed)
    if isinstance(item.default, bool):
        return "true, false"
    or_none = " or none" if "None" in str(item.type) else ""
    whole = "whole, " if str(item.type).startswith("int") or item.type is int else ""
    return f"{whole}{allowed or 'any'}{or_none}"


def _inside(value: float, interval: str) -> bool:
    low, high = (float(end) for end in interval[1:-1].split(","))
    above = value >= low if interval[0] == "[" else value > low
    below = value <= high if interval[-1] == "]" else value < high
    return above and below


# ---- the kinds, stage by stage ---------------------------------------------------------------------------------------


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
    def shares_advantage(self) -> bool:
        """Whether a summand adds nothing to a group whose advantages are all 0."""
        return False

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
    advantage_beside: ClassVar[str] = ""
    """Where it reads no advantage, the one that its recipe has beside it."""

    def notices(self, parts: Mapping[str, Part]) -> Iterator[str]:
        yield from super().notices(parts)
        for part in parts.values():
            if self.advantage_beside and isinstance(part, Reward | Advantage) and part.name != self.advantage_beside:
                yield f"{part.name}: changes nothing, as {self.name} reads no advantage. Leave it out."

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
        """Whether masked tokens leave the denominator too; unless written, if its parameter `denominator` is `kept`."""
        return bool(getattr(self, "denominator", "kept") == "kept")

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
