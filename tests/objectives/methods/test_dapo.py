"""DAPO's vectors."""

import torch

from objectives import TokenBatch, parse
from tests.objectives.vectors import small_batch


def test_soft_overlong_punishes_the_last_fifth_of_the_limit() -> None:
    lengths = torch.tensor([1, 16384, 18432, 20480, 20481])
    batch = TokenBatch(mask=torch.arange(20481) < lengths[:, None], reward=torch.ones(5), max_length=20480)
    assert parse("soft_overlong").select(batch).reward.tolist() == [1, 1, 0.5, 0, 0]


def test_dynamic_sampling_judges_the_raw_correctness() -> None:
    batch = small_batch(torch.ones(4, 10, dtype=torch.float64), [-1, -1, 1, -1], [7, 7, 2, 2])
    batch = batch.with_fields(mask=torch.arange(10) < torch.tensor([[2], [10], [2], [2]]), max_length=10)
    prepared = parse("dapo").prepare(batch)
    assert prepared.reward.tolist() == [-1, -2, 1, -1]
    assert prepared.selected.tolist() == [False, False, True, True]
    assert prepared.mask.sum() == 4
