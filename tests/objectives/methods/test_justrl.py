"""JustRL's vectors."""

import math

import torch

from objectives import parse
from tests.objectives.vectors import small_batch, tokens


def test_the_first_update_is_the_advantage_over_the_token_count() -> None:
    batch = small_batch(tokens([0.5, 0.5, 0.5], [0.5, 0.5, 0]), [1, -1], [0, 0])
    advantage = 1 / (math.sqrt(2) + 1e-6)
    expected = advantage / 5 * tokens([1, 1, 1], [-1, -1, 0])
    torch.testing.assert_close(parse("justrl").token_gradients(batch)[0], expected, rtol=1e-12, atol=0)


def test_the_legacy_token_mean_weighs_micro_batches_by_their_rows() -> None:
    batch = small_batch(tokens([0.5, 0.5, 0.5], [0.5, 0, 0]), [1, -1], [0, 0], micro_batch=torch.tensor([0, 1]))
    advantage = 1 / (math.sqrt(2) + 1e-6)
    (found,) = parse("justrl(variant=authors)").token_gradients(batch)
    expected = advantage * tokens([1 / 6, 1 / 6, 1 / 6], [-1 / 2, 0, 0])
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
