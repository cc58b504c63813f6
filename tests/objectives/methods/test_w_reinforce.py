"""The vectors of W-REINFORCE, PSR and NSR."""

import pytest
import torch

from objectives import parse
from tests.objectives.vectors import assert_close, batch_r, rollouts_z

REST = ([0, -1.1051709], [-1.8221188, -12.182494, -0.95122942])


def test_wrong_answers_weigh_ten_times_as_much() -> None:
    objective = parse("w_reinforce")
    found = objective.push(objective.plan(objective.prepare(rollouts_z()))) * 10
    assert_close(found, [0.10512711, 0, 0.067032005, 0], *REST, [0.098019867])


@pytest.mark.parametrize(("variant", "kept", "tokens"), [("psr", [0, 3], 5), ("nsr", [1, 2], 5)])
def test_answers_that_are_left_out_leave_the_denominator(variant: str, kept: list[int], tokens: int) -> None:
    objective = parse(f"w_reinforce(variant={variant})")
    plan = objective.plan(objective.prepare(rollouts_z()))
    assert plan.active.nonzero().flatten().tolist() == kept
    assert (plan.policy_coefficient[plan.batch.mask] == 1 / tokens).all()


def test_groups_of_one_kind_train_unless_they_are_dropped() -> None:
    advantage = parse("w_reinforce").prepare(batch_r()).advantage[:, 0]
    assert (advantage[8:] == 0.1).all()
    assert not parse("w_reinforce+dynamic_sampling").prepare(batch_r()).mask[8:].any()


def test_added_to_another_objective_a_variant_brings_what_it_leaves_out() -> None:
    psr = parse("justrl+w_reinforce(variant=psr)")
    assert parse("justrl+signed_reward(right=1)+answer_filter") == psr
    torch.testing.assert_close(psr.advantages(batch_r())[:2], torch.tensor([1.0, -1.0], dtype=torch.float64))
