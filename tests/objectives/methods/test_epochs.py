"""PPO's epochs, and what they are beside Lopti's two passes."""

import pytest
import torch

from objectives import ObjectiveError, parse
from tests.objectives.vectors import rollouts_z


def test_every_token_is_in_every_pass_and_in_one_of_loptis() -> None:
    epochs, lopti = (parse(f"justrl+{name}") for name in ("epochs(count=3)", "lopti"))
    prepared = [it.passes(it.prepare(rollouts_z())) for it in (epochs, lopti)]
    assert [len(passes) for passes in prepared] == [epochs.pass_count, lopti.pass_count] == [3, 2]
    assert all(update.policy_mask is None for update in prepared[0])
    first, second = (update.policy_mask for update in prepared[1])
    assert (first ^ second).all()


def test_each_pass_is_the_one_pass_of_the_same_objective() -> None:
    batch = rollouts_z()
    (once,) = parse("stapo").token_gradients(batch)
    for gradient in parse("stapo+epochs(count=4)").token_gradients(batch):
        assert torch.equal(gradient, once)
    assert parse("grpo+epochs(count=1)").pass_count == 1


def test_two_schedules_exclude_each_other() -> None:
    with pytest.raises(ObjectiveError, match="schedule holds one part"):
        parse("grpo+epochs+lopti")
