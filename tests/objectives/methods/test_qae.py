"""QAE's vectors."""

import pytest
import torch

from objectives import parse
from tests.objectives.batches import random_case, token_batch
from tests.objectives.vectors import batch_r


@pytest.mark.parametrize(
    ("setting", "mixed"),
    [
        ("q=0.4", (1.7320478, 0.0)),
        ("q=0.4,kind=linear", (1.3856382, -0.34640956)),
        ("q=0.6", (0.0, -1.7320478)),
    ],
)
def test_hard_prompts_train_on_right_answers_and_easy_ones_on_wrong(setting: str, mixed: tuple[float, float]) -> None:
    right, wrong = mixed
    expected = [right, wrong, wrong, right, 0, 0, 0, -1.999996, 0, 0, 0, 0]
    assert parse(f"qae({setting})").advantages(batch_r()).tolist() == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("variant", ["paper", "linear"])
def test_a_constant_added_to_the_rewards_changes_nothing(variant: str) -> None:
    for seed in range(10):
        batch, objective = token_batch(random_case(seed)), parse(f"qae(variant={variant})")
        expected = objective.advantages(batch)
        found = objective.advantages(batch.with_fields(reward=batch.reward + 4))
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_a_share_that_falls_between_two_responses_takes_the_upper() -> None:
    reward = torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
    zeros = torch.zeros(5, dtype=torch.long)
    batch = batch_r().rows(slice(5)).with_fields(reward=reward, group=zeros, correct=reward)
    for q, baseline in ((0.4, 1), (0.41, 2), (0.2, 0), (1e-12, 0), (0.99, 4)):
        assert parse(f"qae(q={q})").advantages(batch).argwhere().flatten().tolist() == [
            row for row in range(5) if row != baseline
        ]
