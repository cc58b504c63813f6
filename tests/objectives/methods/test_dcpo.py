"""DCPO's vectors."""

import pytest
import torch

from objectives import Modifier, parse
from tests.objectives.vectors import PER_RESPONSE, assert_close, batch_z, prepared, pushes, small_batch, tokens


def test_the_bounds_follow_the_old_probability() -> None:
    bounds = parse("dcpo-dual_clip").plan(
        prepared(small_batch(tokens([0.05, 0.2, 0.5, 0.9, 1.0]), [1.0], [0]), torch.ones(1, 5).double())
    )
    assert (1 - bounds.bounds.low)[0].tolist() == pytest.approx([0.5, 0.5, 0.5, 0.76874192, 0.8])
    upper = [2.5615528, 1.618034, 1.3062258, 1.1871843, 1.1708204]
    assert (1 + bounds.bounds.high)[0].tolist() == pytest.approx(upper)


def test_the_vector_of_batch_z() -> None:
    bounds = parse("dcpo").plan(batch_z()).bounds
    assert (1 + bounds.high)[0].tolist() == pytest.approx([1.3908739, 1.2614094, 1.8144623, 2.5656978])
    assert (1 - bounds.low)[1, :2].tolist() == pytest.approx([0.77050444, 0.5])
    rest = ([0, -0.55258546], [-1.8221188, 0, -0.95122942], [0.49009934])
    assert_close(pushes("dcpo", PER_RESPONSE), [1.0512711, 0, 0.67032005, 0], *rest)


def test_a_sure_token_has_narrow_bounds_of_about_the_widths() -> None:
    batch = prepared(small_batch(torch.ones(1, 1).double(), [1.0], [0]), torch.ones(1, 1).double())
    bounds = parse("dcpo(low=0.001,high=0.001)").plan(batch).bounds
    assert (bounds.low.item(), bounds.high.item()) == pytest.approx((0.001, 0.001), rel=2e-3)
    assert len(parse("dapo+dcpo").all(Modifier)) == 2


def test_the_equation_has_its_outer_bounds() -> None:
    equation = parse("dcpo(most=7)").equation
    assert "(1 + sqrt(max(1 - 0.64/q, 0)))/2, min((1 + sqrt(1 + 0.8/q))/2, 7)" in equation
    assert "; q = p_old" in equation
