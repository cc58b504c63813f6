"""SDAR's vectors."""

import math

import torch

from objectives import parse
from tests.objectives.vectors import LENGTHS_Z, rollouts_z, tokens

GAP = tokens([0.5, -0.25, 0.0, 1.0], [0.125, -2.0], [0.0, 0.0, 3.0], [-1.0])


def gradient(expression: str) -> torch.Tensor:
    batch = rollouts_z()
    (found,) = parse(expression).token_gradients(batch.with_fields(logp_teacher=batch.require("logp", "test") + GAP))
    return found


def test_beside_grpo_each_token_is_raised_through_its_gate_and_none_is_lowered() -> None:
    added = gradient("sdar") - gradient("sdar-gated_distillation")
    gate = torch.sigmoid(5 * GAP)
    there = rollouts_z().mask
    expected = torch.where(there, 0.01 * gate / torch.tensor(LENGTHS_Z)[:, None] / 4, 0.0)
    torch.testing.assert_close(added, expected)
    assert added[there].min() >= 0


def test_a_gate_is_half_open_where_both_agree_and_shut_where_the_teacher_finds_a_token_rarer() -> None:
    added = 100 * 4 * (gradient("sdar") - gradient("sdar-gated_distillation")) * torch.tensor(LENGTHS_Z)[:, None]
    assert math.isclose(added[2, 0].item(), 0.5, abs_tol=1e-9)
    assert added[1, 1].item() < 1e-4 and added[2, 2].item() > 1 - 1e-6
