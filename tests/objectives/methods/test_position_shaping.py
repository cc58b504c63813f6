"""Position shaping's vectors."""

import math

import pytest
import torch

from objectives import TokenBatch, parse


def advantages(expression: str, length: int = 10) -> list[list[float]]:
    batch = TokenBatch(
        mask=torch.ones(2, length, dtype=torch.bool),
        group=torch.zeros(2, dtype=torch.long),
        reward=torch.tensor([1.0, 0.0], dtype=torch.float64),
        correct=torch.tensor([1.0, 0.0], dtype=torch.float64),
    )
    found: list[list[float]] = parse(expression).prepare(batch).advantage.tolist()
    return found


def test_it_grows_from_next_to_nothing_to_a_tenth_and_a_half_of_that_in_the_middle() -> None:
    shaped = advantages("position_shaping-soft_overlong")
    plain = advantages("position_shaping-soft_overlong-position_bonus")
    gained = [a - b for a, b in zip(shaped[0], plain[0], strict=True)]
    assert gained == pytest.approx([0.1 / (1 + math.exp(-15 * (t / 10 - 0.5))) for t in range(10)])
    assert gained[5] == pytest.approx(0.05)
    assert shaped[1] == pytest.approx([-value for value in shaped[0]])


def test_no_advantage_grows_by_more_than_its_half() -> None:
    (first, *_), plain = advantages("position_shaping(gamma=100)-soft_overlong"), 1 / math.sqrt(2)
    assert first[-1] == pytest.approx(1.5 * plain, rel=1e-5)
