"""RLOO's vectors."""

import pytest
import torch

from objectives import parse
from tests.objectives.batches import random_case, token_batch
from tests.objectives.vectors import assert_close, batch_r, loss_of, pushes, rollouts_z


def test_the_others_are_the_baseline() -> None:
    third = 1 / 3
    expected = [2 * third, -2 * third, -2 * third, 2 * third, third, third, third, -1, 0, 0, 0, 0]
    assert parse("rloo-kl_reward").advantages(batch_r()).tolist() == pytest.approx(expected)


def test_the_divergence_is_taken_off_the_reward_first() -> None:
    found = parse("rloo(beta=0.05)").advantages(rollouts_z())
    assert found.tolist() == pytest.approx([0.66666667, -0.66, -0.66, 0.65333333], abs=1e-8)


def test_nothing_bounds_a_token() -> None:
    found = pushes("rloo", 4.0)
    assert_close(
        found,
        [1.0512711, 1.3498588, 0.67032005, 3.3201169],
        [-0.37040911, -0.55258546],
        [-1.8221188, -12.182494, -0.95122942],
        [0.49009934],
    )


def test_trls_ratio_is_the_responses_and_its_loss_counts_every_token() -> None:
    found = pushes("rloo(variant=trl)", 4.0)
    assert_close(found, [0] * 4, [-0.40936538] * 2, [-21.115344] * 3, [0.49009934], digits=1e-6)
    per_response = 4 * loss_of("rloo(variant=trl)+seq_mean") / 4
    assert per_response == pytest.approx(4.95865262, abs=1e-7)


def test_it_is_the_centred_reward_over_the_share_of_the_others() -> None:
    for seed in range(10):
        batch = token_batch(random_case(seed))
        group = batch.group
        size = (group[:, None] == group).sum(1)
        centred = parse("dr_grpo").advantages(batch)
        torch.testing.assert_close(parse("rloo-kl_reward").advantages(batch), centred * size / (size - 1))
