"""Lite PPO's vectors."""

import pytest
import torch

from objectives import parse
from tests.objectives.vectors import batch_r


def test_the_deviation_of_all_rewards_divides_centred_groups() -> None:
    up, right, wrong = 1.1052972, 0.5526486, -1.6579458
    expected = [up, -up, -up, up, right, right, right, wrong, *[0] * 4]
    assert parse("lite_ppo").advantages(batch_r()).tolist() == pytest.approx(expected, abs=1e-7)


def test_rewards_that_are_all_equal_have_no_advantage() -> None:
    found = parse("lite_ppo(eps=0)").advantages(batch_r().with_fields(reward=torch.full((12,), 0.1)))
    assert (found == 0).all()
