"""Lopti's vectors."""

import math

import torch

from objectives import parse
from tests.objectives.vectors import small_batch, tokens


def test_lopti_splits_as_printed() -> None:
    batch = small_batch(tokens([0.1, 0.6, 0.5], [0.9, 0.49, 0]), [1, -1], [0, 0])
    unit = (math.sqrt(2) + 1e-6) * 5
    first, second = (update * unit for update in parse("justrl+lopti").token_gradients(batch))
    torch.testing.assert_close(first, tokens([1, 0, 0], [0, -1, 0]), rtol=1e-12, atol=0)
    torch.testing.assert_close(second, tokens([0, 1, 1], [-1, 0, 0]), rtol=1e-12, atol=0)


def test_lopti_puts_the_boundary_into_the_high_group() -> None:
    batch = small_batch(tokens([1.0, 0.25], [1.0, 0.25]), [1, -1], [0, 0])
    first, second = parse("justrl+lopti(eta=1)").token_gradients(batch)
    assert (first != 0).tolist() == [[False, True]] * 2
    assert (second != 0).tolist() == [[True, False]] * 2
