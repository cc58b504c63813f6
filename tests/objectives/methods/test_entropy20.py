"""20-Entropy's vectors."""

import math

import torch

from objectives import parse
from tests.objectives.vectors import small_batch, tokens


def test_entropy20_divides_by_what_it_keeps() -> None:
    entropy = tokens([5, 4, 3, 2, 1], [0, 0, 0, 0, 0])
    batch = small_batch(torch.full((2, 5), 0.5, dtype=torch.float64), [1, -1], [0, 0])
    batch = batch.with_fields(entropy=entropy)
    advantage = 1 / (math.sqrt(2) + 1e-6)
    for expression, denominator in (("entropy20", 2), ("entropy20(variant=v1)", 10)):
        expected = advantage / denominator * tokens([1, 1, 0, 0, 0], [0, 0, 0, 0, 0])
        torch.testing.assert_close(parse(expression).token_gradients(batch)[0], expected, rtol=1e-12, atol=0)
