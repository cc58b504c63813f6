"""Dr. GRPO's vectors."""

import pytest
import torch

from objectives import ObjectiveError, parse
from tests.objectives.vectors import assert_close, batch_r, batch_z, loss_of, pushes


def test_the_gradient_is_the_clipped_one_over_rows_times_limit() -> None:
    found = pushes("dr_grpo", 32.0)
    assert_close(
        found,
        [1.0512711, 0, 0.67032005, 0],
        [0, -0.55258546],
        [-1.8221188, -12.182494, -0.95122942],
        [0.49009934],
    )
    assert loss_of("dr_grpo") == pytest.approx(0.35302304, abs=1e-8)
    assert loss_of("dr_grpo+seq_sum") == pytest.approx(2.82418429, abs=1e-8)
    assert loss_of("dr_grpo+seq_mean") == pytest.approx(0.98526908, abs=1e-8)
    assert loss_of("dr_grpo+token_mean") == pytest.approx(1.12967372, abs=1e-8)
    assert loss_of("dr_grpo(length=16)") == pytest.approx(0.35302304 / 2, abs=1e-8)


def test_neither_deviation_nor_length_divides() -> None:
    expected = [0.5, -0.5, -0.5, 0.5, 0.25, 0.25, 0.25, -0.75, 0, 0, 0, 0]
    assert parse("dr_grpo").advantages(batch_r()).tolist() == pytest.approx(expected)
    z = batch_z()
    plan = parse("dr_grpo").plan(z)
    assert (plan.policy_coefficient[z.mask] == 1 / 32).all()


def test_seq_sum_is_the_constant_length_times_its_length() -> None:
    torch.testing.assert_close(pushes("dr_grpo+seq_sum", 1.0), pushes("dr_grpo(length=5)", 5.0))


def test_the_limit_comes_from_the_batch_unless_given() -> None:
    with pytest.raises(ObjectiveError, match="constant_length reads the field max_length"):
        parse("dr_grpo").plan(batch_z().with_fields(max_length=None))
    parse("dr_grpo(length=8)").plan(batch_z().with_fields(max_length=None))
