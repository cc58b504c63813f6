"""NFT's vectors."""

import pytest
import torch

from objectives import parse
from tests.objectives.batches import random_case, token_batch
from tests.objectives.vectors import PER_BATCH, assert_close, batch_z, pushes, rollouts_z


def test_wrong_answers_train_the_policy_without_the_right_ones() -> None:
    found = pushes("nft", PER_BATCH)
    assert_close(found, [0.5] * 4, [-0.29416651, -0.55258546], [-0.9110594, -6.091247, -0.45349738], [0.5])


def test_the_values_are_logarithms() -> None:
    batch, objective = batch_z(), parse("nft")
    plan = objective.plan(batch)
    rows = [objective.loss(plan, slice(i, i + 1), batch.logp[i : i + 1]).item() * PER_BATCH for i in (1, 2)]
    assert rows == pytest.approx([-0.11523106, -0.0238093], abs=1e-7)


@pytest.mark.parametrize("eps", [1.0, 0.1])
def test_while_the_policy_has_not_moved_it_is_the_centred_correctness(eps: float) -> None:
    for seed in range(10):
        batch = token_batch(random_case(seed, moved=False))
        centred = parse("grpo-kl+group_center+unclipped+token_mean")
        (found,) = parse(f"nft(eps={eps})").token_gradients(batch)
        (expected,) = centred.token_gradients(batch.with_fields(reward=batch.correct))
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-15)


def test_the_success_is_that_of_the_group_with_its_dropped_responses() -> None:
    batch = rollouts_z().with_fields(truncated=torch.tensor([True, False, False, False]))
    objective = parse("nft+overlong_filter")
    plan = objective.plan(objective.prepare(batch))
    assert plan.extra["success"].tolist() == [0.5] * 4
