"""The declaration of a key: type, default, docstring, range or choices, what it decides and which commands read it.

A schema is a dataclass. The type of a field is `Annotated` with its range, as annotated-types has it, with what it
decides, and with the commands besides `rlzoo train` and `rlzoo compare` that read it:

    max_prompt_tokens: Annotated[Count, RESULTS, EVALUATES | TASK | FIT] = 1024

pydantic's `TypeAdapter` checks types and ranges of the whole schema (`reading.py`); OmegaConf only reads YAML. This
module reads the other annotations of a field for help, documentation, comparison and resumption.
"""

import ast
import inspect
import itertools
import typing
from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import Enum, Flag, auto
from functools import cached_property
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, IsFinite, Le, Lt


class Mark(Enum):
    """What else code asks about a key."""

    EXPRESSION = auto()
    LOCATES_DATA = auto()
    NAMES_CODE = auto()
    """Its value, or each of its values, is the name of code from outside, or lets a model bring its own, or a
    server sample."""
    MAY_NAME_CODE = auto()
    """Its value may be the name of code from outside, and is a name of ours otherwise."""


Number = IsFinite[float]
Count = Annotated[int, Ge(1)]
Natural = Annotated[int, Ge(0)]
Positive = Annotated[Number, Gt(0)]
Share = Annotated[Number, Ge(0), Le(1)]
Expression = Annotated[str, Mark.EXPRESSION]


class Decides(Enum):
    """What changes with the value of a key."""

    CELL = "which run of a grid it is"
    RESULTS = "what a run learns"
    LENGTH = "where a run ends"
    EVALUATION = "what is measured of a run"
    FOLDER = "where a run is kept"
    RECORDS = "what is kept of a run"
    MACHINE = "where and how fast it runs"


class ReadBy(Flag):
    """Who reads a key besides `rlzoo train` and `rlzoo compare`."""

    NONE = 0
    EVAL = auto()
    """`rlzoo eval` of the task."""
    BENCHMARKS = auto()
    """`rlzoo eval` with `benchmarks=`."""
    TASK = auto()
    FIT = auto()


CELL, RESULTS, LENGTH, EVALUATION = Decides.CELL, Decides.RESULTS, Decides.LENGTH, Decides.EVALUATION
FOLDER, RECORDS, MACHINE = Decides.FOLDER, Decides.RECORDS, Decides.MACHINE
GRID_IDENTITY = frozenset({RESULTS, LENGTH, EVALUATION})
"""What all runs of a grid share; grids that differ in it are different ones."""
RUN_IDENTITY = GRID_IDENTITY | {CELL}
"""What makes a run another one. The rest decides no result."""

EVAL, BENCHMARKS, TASK, FIT = ReadBy.EVAL, ReadBy.BENCHMARKS, ReadBy.TASK, ReadBy.FIT
EVALUATES = EVAL | BENCHMARKS


@dataclass(frozen=True)
class Key:
    """A key of a schema, dotted where it is in a section."""

    name: str
    type: Any
    """Without annotations."""
    annotated: Any
    default: Any
    meaning: str

    @cached_property
    def facts(self) -> tuple[Any, ...]:
        """Everything that its type is annotated with, that of the values in a list or of what may be none included."""
        return tuple(_facts(self.annotated))

    @property
    def decides(self) -> Decides | None:
        """What it decides; None of a key that belongs to one command alone."""
        return next((fact for fact in self.facts if isinstance(fact, Decides)), None)

    @property
    def read_by(self) -> ReadBy:
        """The commands that read it."""
        return next((fact for fact in self.facts if isinstance(fact, ReadBy)), ReadBy.NONE)

    @property
    def is_expression(self) -> bool:
        """Whether it is an objective, taken as written."""
        return Mark.EXPRESSION in self.facts

    @property
    def locates_data(self) -> bool:
        """Whether it says where the problems are. An evaluation records their digest instead."""
        return Mark.LOCATES_DATA in self.facts

    @property
    def names_code(self) -> bool:
        """Whether it may name code from outside, as an objective does with its parts."""
        return bool({Mark.EXPRESSION, Mark.NAMES_CODE, Mark.MAY_NAME_CODE}.intersection(self.facts))

    @property
    def choices(self) -> tuple[str, ...]:
        """The values of a `Literal`, or of the items of a list of it; empty for other types."""
        kinds = [kind for kind in (self.type, *typing.get_args(self.type)) if typing.get_origin(kind) is Literal]
        return tuple(str(value) for kind in kinds[:1] for value in typing.get_args(kind))

    @property
    def range(self) -> str:
        """As a sentence has it: `from 0 to 1`, `at least 0 and less than 1`; empty if any value will do."""
        ends = {type(fact): fact for fact in self.facts}
        least, above, below, most = (ends.get(kind) for kind in (Ge, Gt, Lt, Le))
        if least and most:
            return f"from {least.ge} to {most.le}"
        words = (
            least and f"at least {least.ge}",
            above and f"greater than {above.gt}",
            below and f"less than {below.lt}",
            most and f"at most {most.le}",
        )
        return " and ".join(filter(None, words))


_KEYS: dict[type[Any], tuple[Key, ...]] = {}


def keys(schema: type[Any]) -> tuple[Key, ...]:
    """Every key of a schema, in its order."""
    if schema not in _KEYS:
        _KEYS[schema] = tuple(_walk(schema, ""))
    return _KEYS[schema]


def key_named(schema: type[Any], name: str) -> Key | None:
    """The key of this name, or that which holds it: `task.options` of `task.options.digits`."""
    return next((key for key in keys(schema) if f"{name}.".startswith(f"{key.name}.")), None)


def _walk(schema: type[Any], prefix: str) -> Iterator[Key]:
    docs, bare = _field_docs(schema), typing.get_type_hints(schema)
    annotated = typing.get_type_hints(schema, include_extras=True)
    for item in fields(schema):
        name, kind = f"{prefix}{item.name}", bare[item.name]
        if is_dataclass(kind):
            yield from _walk(typing.cast(type[Any], kind), f"{name}.")
        else:
            yield Key(name, kind, annotated[item.name], _default(item), docs.get(item.name, ""))


def _default(item: Field[Any]) -> Any:
    return item.default if item.default_factory is MISSING else item.default_factory()


def _facts(annotated: Any) -> Iterator[Any]:
    yield from getattr(annotated, "__metadata__", ())
    for inner in typing.get_args(annotated):
        yield from _facts(inner)


def _field_docs(schema: type[Any]) -> dict[str, str]:
    """The string literal below each field of a dataclass."""
    body = ast.parse(inspect.getsource(schema)).body[0]
    assert isinstance(body, ast.ClassDef)
    return {
        field.target.id: doc.value.value
        for field, doc in itertools.pairwise(body.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant) and isinstance(doc.value.value, str)
    }
