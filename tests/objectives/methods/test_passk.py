"""Pass@k training's vectors."""

import pytest
import torch

from objectives import TokenBatch, parse
from tests.objectives.batches import random_case, token_batch
from tests.objectives.vectors import batch_r


def group_of(right: int, size: int) -> TokenBatch:
    correct = torch.tensor([1.0] * right + [0.0] * (size - right), dtype=torch.float64)
    zeros = torch.zeros(size, dtype=torch.long)
    return TokenBatch(mask=torch.ones(size, 2).bool(), group=zeros, reward=correct, correct=correct)


def test_a_group_with_a_right_one_in_every_set_has_no_advantage() -> None:
    expected = [0.4472124, -0.4472124, -0.4472124, 0.4472124, *[0] * 8]
    assert parse("passk(k=2)").advantages(batch_r()).tolist() == pytest.approx(expected, abs=1e-7)


def test_two_of_eight_in_sets_of_four() -> None:
    found = parse("passk(k=4)").advantages(group_of(2, 8)).tolist()
    assert found == pytest.approx([0.5222317] * 2 + [-0.17407723] * 6, abs=1e-7)


@pytest.mark.parametrize("right", [0, 5, 6, 8])
def test_without_difference_between_sets_there_is_none_between_responses(right: int) -> None:
    assert (parse("passk(k=4)").advantages(group_of(right, 8)) == 0).all()


def test_a_small_group_is_one_set() -> None:
    assert (parse("passk(k=4)").advantages(group_of(1, 3)) == parse("passk(k=3)").advantages(group_of(1, 3))).all()


def test_a_set_of_one_gives_the_population_z_score() -> None:
    for seed in range(10):
        batch = token_batch(random_case(seed))
        right = (batch.correct == 1).double()
        same = batch.group[:, None] == batch.group
        success = (same * right).sum(1) / same.sum(1)
        expected = (right - success) / ((success * (1 - success)).sqrt() + 1e-6)
        torch.testing.assert_close(parse("passk(k=1)").advantages(batch), expected, rtol=1e-12, atol=1e-15)
