"""Every method, broken in one place, is caught: the comparison with the references fails for each of its breaks.

`python -m tests.objectives.test_breaks` prints what was broken and what caught it.
"""

import re
from itertools import product

import pytest
import torch

from objectives.zoo import PARTS
from tests.objectives.breaks import Break
from tests.objectives.comparison import (
    TELLING_SEEDS,
    UNMOVED_SEEDS,
    entropy_error,
    error_of_the_first_update,
    largest_error,
)
from tests.objectives.references import BREAKS, COMPOSITIONS, RECIPES

pytestmark = pytest.mark.slow
BREAK = 1e-6
"""An error above this is a break; rounding is far below it."""
METHODS = sorted({expression.split("(")[0] for expression in RECIPES})
ALL = [(method, change) for method, changes in BREAKS.items() for change in changes]


def caught_by(method: str) -> str:
    """The first comparison of the method's variants and compositions that fails; empty if none does."""
    expressions = [name for name in RECIPES | COMPOSITIONS if re.split(r"[(+-]", name)[0] == method]
    for seed, expression in product(TELLING_SEEDS, expressions):
        error = max(largest_error(expression, [seed], torch.float64), entropy_error(expression, seed))
        if error > BREAK:
            return f"{expression}, batch {seed}: error {error:.0e}"
    for seed, expression in product(UNMOVED_SEEDS, expressions):
        if (error := error_of_the_first_update(expression, seed)) > BREAK:
            return f"{expression}, first update of batch {seed}: error {error:.0e}"
    return ""


def broken(change: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts the wrong attribute in place."""
    part = PARTS[change.part]
    monkeypatch.setattr(part, change.attribute, change.wrong(getattr(part, change.attribute)))


def row(method: str, change: Break, monkeypatch: pytest.MonkeyPatch) -> str:
    """What was broken, and what caught it."""
    broken(change, monkeypatch)
    return f"{method:22s} {change.kind:12s} {change.what:42s} {caught_by(method) or 'NOT CAUGHT'}"


@pytest.mark.parametrize(("method", "change"), ALL, ids=lambda value: getattr(value, "what", value).replace(" ", "_"))
def test_a_broken_method_is_caught(method: str, change: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    print(found := row(method, change, monkeypatch))
    assert "NOT CAUGHT" not in found


@pytest.mark.parametrize("method", METHODS)
def test_a_method_that_is_replaced_by_itself_is_not_caught(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for change in BREAKS[method]:
        if callable(original := getattr(PARTS[change.part], change.attribute)):
            wrapped = change._replace(wrong=lambda original: lambda self, *given: original(self, *given))
            assert wrapped.wrong(original) is not original
            broken(wrapped, monkeypatch)
    assert caught_by(method) == ""


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_broken_in_several_ways(method: str) -> None:
    assert len({change.kind for change in BREAKS[method]}) >= 3


def main() -> None:
    """Prints the table."""
    for method, change in ALL:
        with pytest.MonkeyPatch.context() as monkeypatch:
            print(row(method, change, monkeypatch), flush=True)


if __name__ == "__main__":
    main()
