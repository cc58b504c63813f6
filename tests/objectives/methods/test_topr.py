"""TOPR's vectors."""

import pytest

from objectives import ObjectiveError, parse
from tests.objectives.vectors import PER_RESPONSE, assert_close, batch_r, pushes


@pytest.mark.parametrize(("norm", "weight"), [("sum", 0.81873075), ("mean", 0.90483742)])
def test_wrong_answers_weigh_what_is_left_of_them(norm: str, weight: float) -> None:
    found = pushes(f"topr(norm={norm})", PER_RESPONSE)
    assert_close(found, [1] * 4, [-0.5 * weight] * 2, [-1] * 3, [0.5])


def test_there_is_no_baseline() -> None:
    assert parse("topr").advantages(batch_r()).tolist() == [1, -1, -1, 1, 1, 1, 1, -1, 1, 1, 1, 1]


def test_bounds_that_leave_nothing_are_refused() -> None:
    with pytest.raises(ObjectiveError, match="low=2 exceeds high=1"):
        parse("topr(low=2)")
