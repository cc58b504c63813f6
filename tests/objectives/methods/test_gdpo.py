"""GDPO's vectors: the same sums of rewards, told apart by what they are sums of."""

import pytest
import torch

from objectives import ObjectiveError, parse
from tests.objectives.vectors import small_batch, tokens

REWARDS = tokens([1, 0], [1, 1], [0, 0], [0, 1])
BATCH = small_batch(tokens([0.5], [0.5], [0.5], [0.5]), [1.0, 2.0, 0.0, 1.0], [0, 0, 0, 0], rewards=REWARDS)


def test_each_reward_is_normalised_before_they_are_added_up() -> None:
    scores = (REWARDS - REWARDS.mean(0)) / (REWARDS.std(0) + 1e-4)
    total = scores.sum(1)
    torch.testing.assert_close(parse("gdpo").advantages(BATCH), total / (total.std() + 1e-4))


def test_the_weights_are_those_of_the_run_and_the_scale_of_a_reward_has_no_say() -> None:
    weighted = BATCH.with_fields(reward_weights=(1.0, 0.25))
    scores = (REWARDS - REWARDS.mean(0)) / (REWARDS.std(0) + 1e-4)
    total = scores @ tokens([1, 0.25])[0]
    found = parse("gdpo").advantages(weighted)
    torch.testing.assert_close(found, total / (total.std() + 1e-4))
    larger = weighted.with_fields(rewards=REWARDS * tokens([1, 100]))
    torch.testing.assert_close(parse("gdpo").advantages(larger), found, rtol=1e-3, atol=0)


def test_what_a_batch_lacks_is_named() -> None:
    with pytest.raises(ObjectiveError, match="decoupled_norm reads the field rewards, which this batch lacks"):
        parse("gdpo").advantages(BATCH.with_fields(rewards=None))
    with pytest.raises(ObjectiveError, match="3 reward_weights for 2 rewards"):
        parse("gdpo").advantages(BATCH.with_fields(reward_weights=(1.0, 1.0, 1.0)))
    with pytest.raises(ObjectiveError, match=r"rewards must be \[N, K\] with N = 4, not \[3, 2\]"):
        BATCH.with_fields(rewards=REWARDS[:3])


@pytest.mark.parametrize("addition", ["soft_overlong", "kl_reward"])
def test_what_shapes_the_sum_is_refused(addition: str) -> None:
    with pytest.raises(ObjectiveError, match="has no effect on decoupled_norm, which does not read it"):
        parse(f"gdpo+{addition}")
