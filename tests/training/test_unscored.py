"""Rows in which no reward has a say, and functions that have none in some: what of them a batch has."""

import pytest
import torch

from objectives import parse
from rlzoo.errors import UserError
from rlzoo.rollout.base import Rollouts
from rlzoo.rollout.sampler import GradedRollouts
from rlzoo.tasks import Problem
from rlzoo.training.rows import rewards_by_function, scored_groups

NONE = float("nan")


def graded(rewards: list[list[float]]) -> GradedRollouts:
    """Two responses to each of two problems, with the rewards of two functions."""
    ones, floats = torch.ones(4, 1, dtype=torch.long), torch.zeros(4, 1)
    tokens = {"tokens": ones, "logp": floats, "entropy": floats, "mask": ones.bool(), "version": ones}
    rollouts = Rollouts(
        [[1], [1]],
        prompt=torch.tensor([0, 0, 1, 1]),
        lengths=ones[:, 0],
        truncated=torch.zeros(4, dtype=torch.bool),
        **tokens,
    )
    table = torch.tensor(rewards)
    problems = [Problem("a", "1", "1"), Problem("b", "2", "2")]
    scored = ~table.isnan().all(1)
    return GradedRollouts(
        problems, rollouts, [""] * 4, table.nansum(1), floats[:, 0], ["graded"] * 4, rewards=table, scored=scored
    )


def test_a_group_of_which_a_row_is_not_scored_is_no_part_of_a_batch() -> None:
    rows = graded([[1.0, NONE], [NONE, NONE], [0.0, 1.0], [NONE, 1.0]])
    assert scored_groups(rows.rollouts.prompt, rows).tolist() == [False, False, True, True]


def test_a_function_without_a_say_gives_a_group_zero_and_part_of_one_is_refused_where_it_is_compared() -> None:
    whole = graded([[1.0, NONE], [0.0, NONE], [0.0, 1.0], [1.0, 1.0]])
    assert rewards_by_function(parse("gdpo"), whole).tolist() == [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    part = graded([[1.0, NONE], [0.0, 1.0], [0.0, 1.0], [1.0, 1.0]])
    assert rewards_by_function(parse("grpo"), part).tolist()[0] == [1.0, 0.0]
    with pytest.raises(UserError, match="gives None for some responses to a, and objective=gdpo compares"):
        rewards_by_function(parse("gdpo"), part)
