"""On-policy distillation's vectors."""

import pytest
import torch

from objectives import ObjectiveError, parse
from tests.objectives.vectors import assert_close, rollouts_z, tokens

GAP = tokens([0.5, -0.25, 0.0, 1.0], [0.125, -2.0], [0.0, 0.0, 3.0], [-1.0])
"""[N, T] how much likelier the teacher finds each token than the policy that sampled it."""


def taught(expression: str) -> torch.Tensor:
    """[N, T] the pushes, before anything is divided by the number of responses."""
    batch = rollouts_z()
    old = batch.require("logp_old", "test")
    (found,) = parse(expression).token_gradients(batch.with_fields(logp_teacher=old + GAP, logp=old))
    return 4 * found


def test_a_token_is_pushed_by_how_much_likelier_the_teacher_finds_it_whatever_was_earned() -> None:
    assert_close(taught("opd"), *GAP.tolist())
    assert_close(taught("opd(coefficient=0.5)"), *(GAP / 2).tolist())
    assert_close(taught("opd(clamp=0.25)"), *GAP.clamp(-0.25, 0.25).tolist())


def test_beside_grpo_the_teacher_is_added_to_what_was_earned() -> None:
    both = taught("grpo-kl+seq_sum+unclipped+opd")
    earned = taught("grpo-kl+seq_sum+unclipped")
    assert earned.abs().max() > 0.5
    torch.testing.assert_close(both - earned, taught("opd"))


def test_without_a_teacher_it_says_what_lacks() -> None:
    with pytest.raises(ObjectiveError, match="teacher_advantage reads the field logp_teacher"):
        parse("opd").token_gradients(rollouts_z())
