"""Every method, broken in one place, is caught: the comparison with the references fails for each of its mistakes.

`python -m tests.objectives.test_mistakes` prints what was broken and what caught it.
"""

import re
from itertools import product

import pytest
import torch

from objectives.zoo import PARTS
from tests.objectives.comparison import (
    TELLING_SEEDS,
    UNMOVED_SEEDS,
    entropy_error,
    error_of_the_first_update,
    largest_error,
)
from tests.objectives.mistakes import MISTAKES, Wrong
from tests.objectives.references import REFERENCES

LARGE = 1e-6
"""An error above this is a mistake; rounding is far below it."""


def caught_by(method: str) -> str:
    """The first comparison of the method's variants and compositions that fails; empty if none does."""
    expressions = [name for name in REFERENCES if re.split(r"[(+-]", name)[0] == method]
    for seed, expression in product(TELLING_SEEDS, expressions):
        error = max(largest_error(expression, [seed], torch.float64), entropy_error(expression, seed))
        if error > LARGE:
            return f"{expression}, batch {seed}: error {error:.0e}"
    for seed, expression in product(UNMOVED_SEEDS, expressions):
        if (error := error_of_the_first_update(expression, seed)) > LARGE:
            return f"{expression}, first update of batch {seed}: error {error:.0e}"
    return ""


def put_in(mistake: str, wrong: Wrong, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts the wrong attribute in place."""
    part, attribute = mistake.partition(":")[0].split(".")
    monkeypatch.setattr(PARTS[part], attribute, wrong(getattr(PARTS[part], attribute)))


def row(method: str, mistake: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """What was broken, and what caught it."""
    put_in(mistake, MISTAKES[method][mistake], monkeypatch)
    return f"{method:22s} {mistake:80s} {caught_by(method) or 'NOT CAUGHT'}"


def test_every_mechanism_has_mistakes_in_attributes_that_are_there() -> None:
    assert {expression.split("(")[0] for expression in REFERENCES} >= MISTAKES.keys()
    mistaken = {mistake.partition(".")[0] for mistakes in MISTAKES.values() for mistake in mistakes}
    assert mistaken >= {name for name, part in PARTS.items() if part.__module__.startswith("objectives.methods.")}
    for mistake in (mistake for mistakes in MISTAKES.values() for mistake in mistakes):
        part, attribute = mistake.partition(":")[0].split(".")
        assert hasattr(PARTS[part], attribute), mistake
    assert sum(map(len, MISTAKES.values())) >= 330


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", MISTAKES)
def test_a_mistake_is_caught(method: str) -> None:
    for mistake in MISTAKES[method]:
        with pytest.MonkeyPatch.context() as monkeypatch:
            print(found := row(method, mistake, monkeypatch))
        assert "NOT CAUGHT" not in found


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", MISTAKES)
def test_a_method_that_is_replaced_by_itself_is_not_caught(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for mistake in MISTAKES[method]:
        part, attribute = mistake.partition(":")[0].split(".")
        if callable(getattr(PARTS[part], attribute)):
            put_in(mistake, lambda original: lambda self, *given: original(self, *given), monkeypatch)
    assert caught_by(method) == ""


def main() -> None:
    """Prints the table."""
    for method, mistakes in MISTAKES.items():
        for mistake in mistakes:
            with pytest.MonkeyPatch.context() as monkeypatch:
                print(row(method, mistake, monkeypatch), flush=True)


if __name__ == "__main__":
    main()
