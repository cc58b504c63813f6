"""Ablations: an objective without each of its parts in turn."""

from collections.abc import Iterator

from objectives import Objective, ObjectiveError, parse


def leave_one_out(expression: str) -> Iterator[tuple[Objective, str]]:
    """An expression's objective, then those without one part, with its name; what must stay is passed over."""
    whole = parse(expression)
    yield whole, ""
    for part in whole.parts:
        try:
            yield whole.without(part.name), part.name
        except ObjectiveError:
            continue
