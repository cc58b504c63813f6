"""The expressions that are derived by hand."""

from collections.abc import Callable

from tests.objectives.batches import Array, Case

DERIVED: dict[str, Callable[[Case], list[Array]]] = {}
"""Expression -> what grad log pi(y_it) is multiplied by, [N, T] for each update pass."""


def expression(text: str) -> Callable[[Callable[[Case], Array | list[Array]]], None]:
    """Enters a function of a batch under the expression that it derives; a list has one array for each pass."""

    def enter(function: Callable[[Case], Array | list[Array]]) -> None:
        def passes(batch: Case) -> list[Array]:
            pushes = function(batch)
            return pushes if isinstance(pushes, list) else [pushes]

        assert text not in DERIVED
        DERIVED[text] = passes

    return enter
