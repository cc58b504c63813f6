"""OPSD's vectors."""

import torch

from objectives import parse
from tests.objectives.vectors import LENGTHS_Z, rollouts_z, tokens

GAP = tokens([0.5, -0.25, 0.0, 1.0], [0.125, -2.0], [0.0, 0.0, 3.0], [-1.0])


def pushes(expression: str) -> torch.Tensor:
    batch = rollouts_z()
    now = batch.require("logp", "test")
    batch = batch.with_fields(logp_teacher=now + GAP, micro_batch=torch.tensor([0, 0, 1, 1]))
    (found,) = parse(expression).token_gradients(batch)
    return found


def test_the_policy_that_learns_is_compared_with_the_teacher_not_the_one_that_sampled() -> None:
    expected = GAP / torch.tensor(LENGTHS_Z)[:, None] / 4
    torch.testing.assert_close(pushes("opsd"), expected)


def test_the_code_means_over_the_tokens_of_each_micro_batch() -> None:
    tokens_there = torch.tensor([6, 6, 4, 4])[:, None]
    torch.testing.assert_close(pushes("opsd(variant=authors)"), GAP / tokens_there / 2)
