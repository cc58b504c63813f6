"""ASPO's vectors."""

import pytest
import torch

from tests.objectives.vectors import PER_BATCH, assert_close, prepared, pushes, small_batch, tokens


def test_the_weight_is_turned_over_where_the_advantage_is_positive() -> None:
    rest = ([0, -0.55258546], [-1.8221188, -3, -0.95122942], [0.51010067])
    assert_close(pushes("aspo-kl", PER_BATCH), [0.95122942, 0, 1.4918247, 0], *rest)


@pytest.mark.parametrize(
    ("advantage", "ratios", "expected"),
    [
        (1.0, [0.2, 0.3, 0.5, 0.81, 1, 1.19, 1.21], [3, 3, 2, 1.2345679, 1, 0.8403361, 0]),
        (-1.0, [0.2, 0.79, 0.81, 1, 1.5, 2.9, 3.5], [0, 0, -0.81, -1, -1.5, -2.9, -3]),
    ],
)
def test_the_published_codes_table(advantage: float, ratios: list[float], expected: list[float]) -> None:
    probability = torch.full((1, 7), 0.1, dtype=torch.float64)
    logp = probability.log() + tokens(ratios).log()
    batch = prepared(small_batch(probability, [1.0], [0], logp=logp), torch.full((1, 7), advantage).double())
    assert_close(pushes("aspo-kl", 7.0, batch), expected)
