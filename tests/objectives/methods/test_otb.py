"""The optimal token baseline's vectors."""

import pytest
import torch

from objectives import parse
from tests.objectives.batches import random_case, token_batch
from tests.objectives.vectors import small_batch, tokens

BATCH = small_batch(
    tokens([0.5, 0.5, 0.5], [0.9, 0.8]), [1.0, 0.0], [0, 0], sum_pi_squared_old=tokens([0.5, 0.375, 0.5], [0.82, 0.68])
)
"""Squared gradients by the logits 0.5, 0.375, 0.5 and 0.02, 0.08; so far 0.5, 0.875, 1.375 and 0.02, 0.1."""


@pytest.mark.parametrize(("variant", "alone"), [("paper", 0.0), ("verl", 1.0)])
def test_a_token_is_worth_its_reward_less_the_mean_weighed_by_the_gradients_so_far(variant: str, alone: float) -> None:
    first, second = 0.5 / 0.52, 0.875 / 0.975
    expected = tokens([1 - first, 1 - second, alone], [-first, -second])
    torch.testing.assert_close(parse(f"otb(variant={variant})").advantages(BATCH), expected)


def test_where_every_token_is_sure_the_baseline_is_the_mean() -> None:
    sure = BATCH.with_fields(logp_old=BATCH.logp_old * 0, sum_pi_squared_old=torch.ones_like(BATCH.logp_old))
    assert parse("otb").advantages(sure).tolist() == [[0.5, 0.5, 0.0], [-0.5, -0.5, 0.0]]


def test_equal_weights_give_the_centred_reward() -> None:
    for seed in range(10):
        batch = token_batch(random_case(seed))
        logp, squares = (torch.full_like(batch.logp_old, value) for value in (-1.0, 0.4))
        batch = batch.with_fields(mask=torch.ones_like(batch.mask), logp_old=logp, sum_pi_squared_old=squares)
        expected = batch.like_tokens(parse("dr_grpo").advantages(batch))
        torch.testing.assert_close(parse("otb").advantages(batch), expected, rtol=1e-12, atol=1e-15)
