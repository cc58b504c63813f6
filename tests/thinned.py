"""Long lists of parameters, of which the tests of each change take a part, and `make test-exhaustive` the others."""

from collections.abc import Sequence
from typing import Any

import pytest


def thinned(parameters: Sequence[Any], fast: int, slow: int = 1) -> list[Any]:
    """For `parametrize`: each `fast`-th is a fast test, each `slow`-th of all a slow one, the others are exhaustive.

    0 for `fast` makes none of them fast, 0 for `slow` none of them slow.
    """
    return [_marked(values, place, fast, slow) for place, values in enumerate(parameters)]


def _marked(values: Any, place: int, fast: int, slow: int) -> Any:
    if fast and place % fast == 0:
        return values
    mark = pytest.mark.slow if slow and place % slow == 0 else pytest.mark.exhaustive
    return pytest.param(*(values if isinstance(values, tuple) else (values,)), marks=mark)


def at_night(fast: Sequence[Any], every: Sequence[Any]) -> list[Any]:
    """For `parametrize`: `fast` are tests of each change, and what else is in `every` is exhaustive."""
    return [*fast, *(pytest.param(value, marks=pytest.mark.exhaustive) for value in every if value not in fast)]
