"""The expressions that tests run over, so that their number does not grow with the square of the recipes.

What a part may do to the others is its signature: its stage and what it says of itself there. `SAMPLE` is every
variant, every part alone, and as few pairs of recipes as have every two signatures beside each other that any has.
"""

from itertools import combinations, permutations

from objectives import Objective, ObjectiveError, Part, names, parse

RECIPES = [name.name for name in names() if name.kind == "recipe"]
VARIANTS = [f"{name.name}(variant={variant})" for name in names() for variant in name.variants]
PARTS = [name.name for name in names() if name.kind == "part"]

Signature = tuple[str, ...]


def signature(part: Part) -> Signature:
    """The kind of a part, each flag of that kind, which of its optional methods are written, and what its scope is."""
    kind = next(base for base in type(part).__mro__ if base.__module__ == "objectives.kinds")
    said = [f"{name}={_plain(getattr(part, name))}" for name in _flags(kind)]
    written = [name for name, usual in vars(kind).items() if callable(usual) and getattr(type(part), name) is not usual]
    current, cut = bool({"logp", "entropy"} & part.needs), "micro_batch" in part.needs
    return (kind.__name__, *sorted(said), *sorted(written), f"{current=}", f"{cut=}")


def _flags(kind: type[Part]) -> list[str]:
    return [
        name
        for name in {**vars(kind), **kind.__annotations__}
        if not name.startswith("_") and not callable(vars(kind).get(name))
    ]


def _plain(value: object) -> object:
    return sorted(value) if isinstance(value, frozenset) else value


def meetings(base: str, addition: str, objective: Objective) -> set[object]:
    """What a pair of recipes has beside each other, and that it has these two."""
    signatures = sorted({signature(part) for part in objective.parts})
    return {*combinations(signatures, 2), ("base", base), ("addition", addition)}


def _pairs() -> tuple[dict[str, set[object]], list[str]]:
    parsed, refused = {}, []
    for base, addition in permutations(RECIPES, 2):
        expression = f"{base}+{addition}"
        try:
            parsed[expression] = meetings(base, addition, parse(expression))
        except ObjectiveError:
            refused.append(expression)
    return parsed, refused


def _cover(parsed: dict[str, set[object]]) -> list[str]:
    """The pairs that each add the most meetings to those before, until there are no others."""
    left, chosen = dict(parsed), []
    while True:
        best = max(left, key=lambda expression: len(left[expression]))
        if not left[best]:
            return sorted(chosen)
        chosen.append(best)
        new = left[best]
        left = {expression: found - new for expression, found in left.items()}


_PARSED, REFUSED_PAIRS = _pairs()
PAIRS = list(_PARSED)
"""Every recipe on every other, where they go together."""
SAMPLE_PAIRS = _cover(_PARSED)
SAMPLE = [*VARIANTS, *PARTS, *SAMPLE_PAIRS]
