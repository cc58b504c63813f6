"""OPO's vectors."""

import pytest
import torch

from objectives import parse
from tests.objectives.batches import random_case, token_batch
from tests.objectives.vectors import assert_close, batch_r, pushes


@pytest.mark.parametrize("variant", ["paper", "verl"])
def test_long_responses_weigh_more_in_the_baseline(variant: str) -> None:
    expected = [0.5, -0.5, -0.5, 0.5, 0.3, 0.3, 0.3, -0.7, 0, 0, 0, 0]
    found = parse(f"opo(variant={variant})").advantages(batch_r())
    assert found.tolist() == pytest.approx(expected)
    assert (found[8:] == 0).all()


def test_the_push_is_the_advantage() -> None:
    assert_close(pushes("opo", 4.0), [1] * 4, [-0.5] * 2, [-1] * 3, [0.5])


def test_with_responses_of_one_length_it_is_the_centred_reward() -> None:
    for seed in range(10):
        batch = token_batch(random_case(seed))
        batch = batch.with_fields(mask=torch.ones_like(batch.mask))
        expected = parse("dr_grpo").advantages(batch)
        torch.testing.assert_close(parse("opo").advantages(batch), expected, rtol=1e-12, atol=1e-15)
