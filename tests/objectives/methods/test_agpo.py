"""AGPO's vectors."""

import pytest
import torch

from objectives import parse
from tests.objectives.vectors import batch_r


def test_groups_that_are_right_or_wrong_as_a_whole_push() -> None:
    batch, up = batch_r(), 0.8660239
    found = parse("agpo").advantages(batch).tolist()
    expected = [up, -up, -up, up, 0.499999, 0.499999, 0.499999, -1.499997, 1, 1, 1, 1]
    assert found == pytest.approx(expected, abs=1e-6)
    wrong = batch.with_fields(reward=-torch.ones(12).double(), correct=torch.zeros(12).double())
    assert parse("agpo").advantages(wrong).tolist() == [-1.0] * 12


def test_equal_rewards_of_other_groups_have_no_advantage() -> None:
    half = batch_r().with_fields(reward=torch.ones(12).double(), correct=torch.full((12,), 0.5).double())
    assert parse("agpo").advantages(half).tolist() == [0.0] * 12
