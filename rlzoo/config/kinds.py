"""Kinds of values that several keys take."""

from enum import Enum, auto
from typing import Annotated

from annotated_types import Ge, Gt, IsFinite, Le


class Mark(Enum):
    """What else code asks about a key."""

    EXPRESSION = auto()
    LOCATES_DATA = auto()
    NAMES_CODE = auto()
    """Its value, or each of its values, is the name of code from outside, or lets a model bring its own."""
    MAY_NAME_CODE = auto()
    """Its value may be the name of code from outside, and is a name of ours otherwise."""


Number = IsFinite[float]
Count = Annotated[int, Ge(1)]
Natural = Annotated[int, Ge(0)]
Positive = Annotated[Number, Gt(0)]
Share = Annotated[Number, Ge(0), Le(1)]
Expression = Annotated[str, Mark.EXPRESSION]
