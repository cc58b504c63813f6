"""The likelihood of positive examples: its vectors."""

import pytest
import torch

from objectives import parse
from tests.objectives.vectors import assert_close, batch_z, loss_of, pushes


def test_every_token_of_a_right_answer_is_pushed_alike() -> None:
    found = pushes("positive_nll", 1.0) - pushes("justrl", 1.0)
    assert_close(found, [0.02] * 4, [0, 0], [0, 0, 0], [0.02])
    assert loss_of("positive_nll") - loss_of("justrl") == pytest.approx(0.1214)


def test_without_right_answers_it_is_not_there() -> None:
    batch = batch_z().with_fields(correct=torch.full((4,), 0.5, dtype=torch.float64))
    assert torch.equal(pushes("positive_nll", 1.0, batch), pushes("justrl", 1.0, batch))


def test_groups_that_are_all_right_are_imitated() -> None:
    batch = batch_z(torch.zeros(4, 4, dtype=torch.float64)).with_fields(correct=torch.ones(4))
    assert parse("positive_nll").plan(batch).active.all()
    assert_close(pushes("positive_nll", 10.0, batch), [0.1] * 4, [0.1] * 2, [0.1] * 3, [0.1])
