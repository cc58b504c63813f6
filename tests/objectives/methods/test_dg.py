"""DG's vectors."""

import math

import pytest
import torch

from objectives import parse
from tests.objectives.vectors import batch_z, pushes


def test_the_gate_of_a_welcome_surprise_is_open_and_of_an_unwelcome_one_closed() -> None:
    found = pushes("dg", 4.0)
    batch = batch_z()
    for row, token, advantage in ((0, 3, 1.0), (2, 1, -1.0), (3, 0, 0.5)):
        surprisal = -batch.logp[row, token].item()
        gate = 1 / (1 + math.exp(-advantage * surprisal))
        assert found[row, token].item() == pytest.approx(gate * advantage)


def test_a_hot_gate_is_half_the_policy_gradient() -> None:
    half, whole = pushes("dg(eta=1e9)", 4.0), pushes("dg-delight", 4.0)
    torch.testing.assert_close(half, whole / 2)
    assert parse("dg-delight") == parse("grpo+group_center+reinforce+seq_sum-kl")
