"""M2PO's vectors: the harmful tokens of batch Z have the squares 0.0025 (twice), 0.09 (twice) and 1.44."""

import math

import pytest

from objectives import parse
from tests.objectives.vectors import batch_z


def silenced(budget: float) -> int:
    return int(parse(f"m2po(budget={budget})").plan(batch_z()).touched["second_moment_mask"].sum())


@pytest.mark.parametrize(
    ("budget", "count"), [(0.33, 0), (0.32, 1), (0.0464, 1), (0.04, 2), (0.03, 3), (0.0025, 3), (0.002, 5)]
)
def test_the_largest_leave_until_the_mean_of_the_others_is_within_the_budget(budget: float, count: int) -> None:
    assert silenced(budget) == count


def test_the_published_budget_need_not_be_given() -> None:
    assert parse("m2po") == parse("m2po(budget=0.04)")
    assert parse("dapo+m2po")


@pytest.mark.parametrize(
    ("budget", "square"), [(0.04, 0.0025), (0.038, 0.0025), (0.06, 0.09), (0.3, 0.09), (0.002, 0.0)]
)
def test_the_clip_of_the_code_is_the_last_square_below_the_budget(budget: float, square: float) -> None:
    bounds = parse(f"second_moment_clip(budget={budget})").plan(batch_z()).bounds
    tau = math.sqrt(square)
    assert bounds.low.unique().tolist() == pytest.approx([1 - math.exp(-tau)], rel=2e-3)
    assert bounds.high.unique().tolist() == pytest.approx([math.exp(tau) - 1], rel=2e-3)


def test_within_the_budget_nothing_is_clipped() -> None:
    bounds = parse("second_moment_clip(budget=0.326)").plan(batch_z()).bounds
    assert (bounds.low.unique().item(), bounds.high.unique().item()) == (1.0, math.inf)
