"""Kimi k1.5's vectors."""

import pytest
import torch

from objectives import parse
from tests.objectives.vectors import batch_z, pushes


def test_each_token_is_held_back_by_the_drift_of_its_response() -> None:
    batch = batch_z()
    drift = ((batch.logp - batch.logp_old) * batch.mask).sum(1, keepdim=True)
    expected = (batch.advantage - 0.1 * drift) * batch.mask
    torch.testing.assert_close(pushes("kimi", 4.0), expected)


def test_rolls_square_is_that_of_each_token() -> None:
    batch = batch_z()
    expected = (batch.advantage - 0.1 * (batch.logp - batch.logp_old)) * batch.mask
    torch.testing.assert_close(pushes("kimi(variant=roll)", 10.0), expected)


def test_without_drift_it_is_the_policy_gradient_of_centred_rewards() -> None:
    assert parse("kimi-sequence_drift") == parse("reinforce+group_center")
    assert pushes("kimi(tau=0)", 4.0)[0, 0].item() == pytest.approx(1.0)
