"""Micro-batches: every row once, within the budget."""

from hypothesis import given
from hypothesis import strategies as st

from rlzoo.micro_batches import cut


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(1, 200))
def test_every_row_is_in_one_micro_batch_within_the_budget(lengths: list[int], budget: int) -> None:
    batches = [rows.tolist() for rows in cut(lengths, budget)]
    assert sorted(row for rows in batches for row in rows) == list(range(len(lengths)))
    for rows in batches:
        assert len(rows) == 1 or len(rows) * max(lengths[row] for row in rows) <= budget
