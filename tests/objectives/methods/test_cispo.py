"""CISPO's vectors."""

import pytest
import torch

from tests.objectives.vectors import PER_BATCH, PER_RESPONSE, assert_close, loss_of, pushes

REST = ([-0.37040911, -0.55258546], [-1.8221188, -5, -0.95122942], [0.49009934])


def test_every_token_keeps_its_gradient_with_a_weight_of_five_at_most() -> None:
    assert_close(pushes("cispo", PER_BATCH), [1.0512711, 1.3498588, 0.67032005, 3.3201169], *REST)
    assert loss_of("cispo") == pytest.approx(0.18146766, abs=1e-8)
    assert loss_of("cispo+seq_mean") == pytest.approx(0.24115558, abs=1e-8)


def test_two_sided_widths_bound_the_weight_on_both_sides() -> None:
    rows = ([-0.4, -0.55258546], [-1.2, -1.2, -0.95122942], [0.49009934])
    assert_close(pushes("cispo(low=0.2,high=0.2)", PER_BATCH), [1.0512711, 1.2, 0.8, 1.2], *rows)
    assert loss_of("cispo(low=0.2,high=0.2)") == pytest.approx(-0.04375555, abs=1e-8)
    assert loss_of("cispo(high=0.2)") == pytest.approx(-0.03374665, abs=1e-8)


def test_without_a_bound_it_is_the_unclipped_policy_gradient() -> None:
    torch.testing.assert_close(
        pushes("cispo(high=1e9)", PER_RESPONSE), pushes("grpo+unclipped+token_mean-kl", PER_RESPONSE)
    )
