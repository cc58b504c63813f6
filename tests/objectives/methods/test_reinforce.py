"""REINFORCE by hand."""

import pytest

from objectives import parse
from tests.objectives.vectors import ADVANTAGE_Z, assert_close, batch_r, batch_z, loss_of, pushes


def test_the_reward_is_the_advantage() -> None:
    assert parse("reinforce").advantages(batch_r()).tolist() == batch_r().reward.tolist()


def test_the_push_is_the_reward_and_the_loss_can_be_compared() -> None:
    assert_close(pushes("reinforce", 4.0), *ADVANTAGE_Z.tolist())
    assert loss_of("reinforce") == pytest.approx(-ADVANTAGE_Z.sum().item() / 4)


@pytest.mark.parametrize(("aggregate", "value"), [("seq_mean", 0.02854167), ("token_mean", 0.166)])
def test_times_the_log_prob_it_has_the_value_that_others_print(aggregate: str, value: float) -> None:
    batch = batch_z()
    coefficient = parse(f"reinforce+{aggregate}").plan(batch).policy_coefficient
    printed = -(coefficient * batch.advantage * batch.logp).sum().item()
    assert printed == pytest.approx(value, abs=1e-8)
