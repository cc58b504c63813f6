"""What a part of an objective is: a frozen dataclass of parameters at one of ten stages."""

import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from enum import IntEnum
from typing import Any, ClassVar

from objectives.batch import Prepared, scope_reads, statistic
from objectives.definitions import module_name
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


class _Asked:
    """Stands for the value of a parameter that has to be given, because none is published."""

    def __str__(self) -> str:
        return "?"


REQUIRED: Any = _Asked()


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
    stage: ClassVar[Stage]
    exclusive: ClassVar[bool] = False
    """Whether the stage holds one such part, which an addition replaces."""
    excludes: ClassVar[frozenset[str]] = frozenset()
    """Names of parts of other stages beside which it has no meaning."""
    paper: ClassVar[str] = ""
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
        """What the part calculates, in one line with the actual numbers; unless written, the docstring's first line."""
        return (self.__doc__ or self.name).split("\n")[0]

    def where(self) -> str:
        """What names stand for that it puts into equations; empty if they need no word."""
        return ""

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
