"""The loss of an objective in one line, from the formulas of its parts."""

from collections.abc import Sequence
from typing import TypeVar

from objectives.kinds import (
    Advantage,
    Aggregate,
    Mask,
    Modifier,
    Penalty,
    Ratio,
    Reward,
    Schedule,
    Select,
    Surrogate,
    Weight,
)
from objectives.part import Part

Kind = TypeVar("Kind", bound=Part)


def written_equation(parts: Sequence[Part]) -> str:
    """The loss with the actual numbers in it, and then what I, r, A, R, groups and passes in it are."""

    def of(kind: type[Kind]) -> list[Kind]:
        return [part for part in parts if isinstance(part, kind)]

    (surrogate,), (aggregate,), masks, penalties = of(Surrogate), of(Aggregate), of(Mask), of(Penalty)
    numbers = dict(surrogate.numbers())
    for modifier in of(Modifier):
        numbers |= modifier.numbers()
    terms = [f"{aggregate.formula()} of -{'I ' * bool(masks)}{surrogate.equation(numbers)}"]
    terms += [part.formula() for part in penalties]
    where = [f"I = {' and '.join(part.formula() for part in masks)}"] if masks else []
    counted = [part.formula() for part in masks if part.shrinks_denominator]
    if masks:
        where.append(f"counted: {'I' if len(counted) == len(masks) else ' and '.join(counted) or 'all tokens'}")
    if counted and penalties:
        where.append("the penalties' means count all tokens")
    weights = sorted(of(Weight), key=lambda part: not part.additive)
    rest = [*of(Ratio), *of(Advantage), *weights, *of(Reward), *of(Select), *of(Schedule)]
    names = dict.fromkeys(part.where() for part in parts if part.where())
    return "; ".join([" ".join(terms), *where, *(part.formula() for part in rest), *names])
