"""Shuffle-R1's vectors."""

import torch

from objectives import TokenBatch, parse


def selected(rewards: list[float], expression: str = "shuffle_r1") -> list[bool]:
    rows = len(rewards)
    batch = TokenBatch(
        mask=torch.ones(rows, 2, dtype=torch.bool),
        group=torch.zeros(rows, dtype=torch.long),
        reward=torch.tensor(rewards),
        lot=torch.arange(2 * rows).reshape(rows, 2),
    )
    chosen: list[bool] = parse(expression).select(batch).selected.tolist()
    return chosen


def test_the_best_and_the_worst_are_kept_in_equal_numbers_and_the_middle_is_not() -> None:
    assert selected([3.0, 0.0, 1.0, 2.0]) == [True, True, False, False]
    assert selected([1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]) == [True, True, False, False, False, False, True, True]
    assert all(selected([3.0, 0.0, 1.0, 2.0], "shuffle_r1(share=1)"))


def test_one_right_answer_of_eight_is_kept_with_as_many_more_as_there_are_wrong_ones() -> None:
    kept = selected([0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    assert kept[4] and sum(kept) == 4


def test_a_group_needs_four_responses_to_have_a_first_half_of_its_pairs() -> None:
    assert not any(selected([1.0, 0.0]))
    assert parse("shuffle_r1").learning_group == 4
    assert parse("shuffle_r1(share=1)").learning_group == 2
