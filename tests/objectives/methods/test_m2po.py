"""M2PO's vectors."""

import math

import pytest

from objectives import ObjectiveError, parse
from tests.objectives.vectors import batch_z


def bounds(settings: str) -> tuple[float, float]:
    found = parse(f"m2po({settings})").plan(batch_z()).bounds
    return found.low, found.high


def test_the_exact_width_uses_the_budget_up() -> None:
    tau = math.sqrt((5 * 0.04 - 2 * 0.0025) / 3)
    assert bounds("budget=0.04") == (0.3, 0.5)
    assert bounds("budget=0.0025,low=0,high=0") == pytest.approx((0.04877058, 0.05127110), abs=1e-8)
    assert bounds("budget=0.04,low=0,high=0") == pytest.approx((1 - math.exp(-tau), math.exp(tau) - 1))
    squares = [0.0025, 0.0025, 0.09, 0.09, 1.44]
    assert sum(min(z, tau**2) for z in squares) / 5 == pytest.approx(0.04)


def test_within_the_budget_nothing_is_clipped() -> None:
    assert bounds("budget=0.326") == (1.0, math.inf)
    assert bounds("budget=0.324")[1] < math.exp(1.2)


def test_a_budget_is_asked_for() -> None:
    with pytest.raises(ObjectiveError, match="second_moment_clip needs budget, for which no value is published"):
        parse("dapo+m2po")
