"""Perplexity shaping's vectors."""

import pytest
import torch

from objectives import TokenBatch, parse


def weights(surprises: list[float], expression: str = "perplexity_shaping-soft_overlong") -> list[float]:
    """By which the advantages of a group of one-token responses are multiplied, whose surprises these are."""
    rows = len(surprises)
    correct = torch.tensor([1.0, 0.0] * rows)[:rows].double()
    batch = TokenBatch(
        mask=torch.ones(rows, 1, dtype=torch.bool),
        group=torch.zeros(rows, dtype=torch.long),
        reward=correct,
        correct=correct,
        logp_old=-torch.tensor(surprises)[:, None].double(),
    )
    shaped = parse(expression).prepare(batch).advantage
    plain = parse(f"{expression}-perplexity_weight").prepare(batch).advantage
    found: list[float] = (shaped / plain)[:, 0].tolist()
    return found


def test_likely_responses_count_more_by_a_hundredth_for_each_deviation() -> None:
    assert weights([1.0, 3.0]) == pytest.approx([1.01, 0.99])
    assert weights([2.0, 2.0, 2.0, 2.0]) == [1.0] * 4


def test_an_outlier_has_no_say_in_the_scale_and_is_held_at_a_fifth() -> None:
    found = weights([1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 100.0])
    assert found[:6] == pytest.approx([1.01, 0.99] * 3)
    assert found[6] == pytest.approx(0.8)
