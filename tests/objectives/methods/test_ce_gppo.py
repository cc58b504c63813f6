"""CE-GPPO's vectors."""

import pytest
import torch

from tests.objectives.vectors import PER_BATCH, assert_close, loss_of, pushes


def test_tokens_outside_the_clip_keep_a_share_of_the_gradient_at_the_bound() -> None:
    rest = ([-1.8221188, 0, -0.95122942], [0.49009934])
    assert_close(pushes("ce_gppo", PER_BATCH), [1.0512711, 1.2, 0.67032005, 1.2], [-0.2, -0.55258546], *rest)
    assert pushes("ce_gppo(beta1=0.75)", PER_BATCH)[1, 0].item() == pytest.approx(-0.3)
    capped = 10.0 / PER_BATCH
    assert loss_of("ce_gppo") == pytest.approx(-0.10857568 + capped, abs=1e-8)


def test_without_shares_it_has_the_gradient_of_the_clip() -> None:
    expected = pushes("justrl+clip_higher(high=0.2)+dual_clip(cap=10)", PER_BATCH)
    torch.testing.assert_close(pushes("ce_gppo(beta1=0,beta2=0)", PER_BATCH), expected)
