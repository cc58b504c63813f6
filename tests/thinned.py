"""Long lists of parameters, of which the fast tests take every so manieth and the slow ones the others."""

from collections.abc import Sequence
from typing import Any

import pytest


def thinned(parameters: Sequence[Any], every: int) -> list[Any]:
    """For `parametrize`: all of them, of which only each `every`-th is no slow test."""
    return [
        values if place % every == 0 else pytest.param(*_several(values), marks=pytest.mark.slow)
        for place, values in enumerate(parameters)
    ]


def _several(values: Any) -> Sequence[Any]:
    return values if isinstance(values, tuple) else (values,)
