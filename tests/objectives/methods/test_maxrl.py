"""MaxRL's vectors."""

import pytest
import torch

from objectives import ObjectiveError, parse
from tests.objectives.batches import random_case, token_batch
from tests.objectives.vectors import batch_r


def test_the_groups_success_divides() -> None:
    up, third = 0.999998, 0.33333289
    expected = [up, -up, -up, up, third, third, third, -0.99999867, 0, 0, 0, 0]
    assert parse("maxrl").advantages(batch_r()).tolist() == pytest.approx(expected, abs=1e-8)


def test_a_group_without_success_has_no_advantage() -> None:
    batch = batch_r()
    for eps in (0, 1e-6):
        found = parse(f"maxrl(eps={eps})").advantages(batch.with_fields(correct=torch.zeros(12)))
        assert (found == 0).all()


def test_times_the_success_it_is_the_centred_correctness() -> None:
    for seed in range(10):
        batch = token_batch(random_case(seed))
        same = batch.group[:, None] == batch.group
        success = (same * batch.correct).sum(1) / same.sum(1)
        expected = parse("dr_grpo").advantages(batch.with_fields(reward=batch.correct))
        found = parse("maxrl(eps=0)").advantages(batch) * success
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("recipe", ["maxrl", "passk"])
@pytest.mark.parametrize("shaping", ["soft_overlong", "kl_reward"])
def test_a_shaping_of_the_reward_that_nobody_reads_is_refused_or_dropped(recipe: str, shaping: str) -> None:
    with pytest.raises(ObjectiveError, match=rf"{shaping} has no effect on \w+, which does not read it: leave it out"):
        parse(f"{recipe}+{shaping}")
    assert shaping not in {part.name for part in parse(f"dapo+{recipe}").parts}
    assert parse(f"dapo+{recipe}") == parse(f"dapo-soft_overlong+{recipe}")
    assert parse(parse(f"dapo+{recipe}").expression) == parse(f"dapo+{recipe}")
