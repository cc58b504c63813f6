"""The loss of an objective in one line, from the formulas of its parts."""

from collections.abc import Sequence
from typing import TypeVar

from objectives.part import (
    Advantage,
    Aggregate,
    Mask,
    Modifier,
    Part,
    Penalty,
    Ratio,
    Reward,
    Schedule,
    Select,
    Surrogate,
    Weight,
    in_working_order,
)

Kind = TypeVar("Kind", bound=Part)


def written_equation(parts: Sequence[Part]) -> str:
    """The loss with the actual numbers in it, and then its names in the order in which they are calculated."""

    def of(kind: type[Kind]) -> list[Kind]:
        return [part for part in parts if isinstance(part, kind)]

    (surrogate,), (aggregate,), masks, penalties = of(Surrogate), of(Aggregate), of(Mask), of(Penalty)
    numbers = dict(surrogate.numbers())
    for modifier in of(Modifier):
        numbers |= modifier.numbers()
    terms = [f"{aggregate.formula()} of -{'I ' * bool(masks)}{surrogate.equation(numbers)}"]
    terms += [part.formula() for part in penalties]
    mask = [f"I = {' and '.join(part.formula() for part in masks)}"] if masks else []
    counted = [part.formula() for part in masks if part.shrinks_denominator]
    if masks:
        mask.append(f"counted: {'I' if len(counted) == len(masks) else ' and '.join(counted) or 'all tokens'}")
    if counted and penalties:
        mask.append("the penalties' means count all tokens")
    before = [*of(Reward), *of(Select), *of(Advantage), *in_working_order(of(Weight)), *of(Ratio)]
    statements = [text for part in before for text in (part.where(), part.formula())]
    statements += [part.where() for part in [surrogate, *of(Modifier), *masks, aggregate, *penalties]]
    statements += [*mask, *(part.formula() for part in of(Schedule))]
    return "; ".join([" ".join(terms), *dict.fromkeys(text for text in statements if text)])
