"""Rows go to processes by their work: the fullest has hardly more than the mean in any mini-batch."""

from dataclasses import replace

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.gpu.balance import Setting, positions
from objectives import TokenBatch, whole_groups
from rlzoo.model.layout import Work, assign_minibatches, assign_rows
from rlzoo.training.rows import may_learn

PAPERS = Setting(prompts=512, responses=16, minibatches=16, limit=20480, processes=64)
"""DAPO's, at 32B."""


def test_the_fullest_of_64_processes_trains_at_most_1_05_of_the_mean_of_a_minibatch() -> None:
    work = PAPERS.draw(sigma=1.0, seed=0)
    assert max(PAPERS.fullest(work, PAPERS.dealt(work), positions(work))) <= 1.05
    assert min(PAPERS.fullest(work, PAPERS.sampled(), positions(work))) > 3


def test_a_response_longer_than_the_mean_of_a_process_is_all_that_its_process_trains() -> None:
    process_of = assign_rows(Work([0] * 5, [1] * 5, [100, 10, 10, 10, 10], [True] * 5), 3, 0)
    assert process_of.count(process_of[0]) == 1
    assert sorted(process_of.count(process) for process in set(process_of[1:])) == [2, 2]


def test_rows_that_learn_are_balanced_and_so_are_all_rows() -> None:
    setting = replace(PAPERS, processes=16)
    work = setting.draw(sigma=0.5, seed=1, silent=0.4)
    process_of, everything = setting.dealt(work), replace(work, learns=[True] * len(work.group))
    assert max(setting.fullest(work, process_of, positions(work))) <= 1.05
    assert max(setting.fullest(everything, process_of, positions(work))) <= 1.05


def test_responses_share_their_prompt_on_one_process_unless_that_leaves_others_idle() -> None:
    def processes_of_groups(groups: int, prompt: int, processes: int) -> list[int]:
        group = [row // 4 for row in range(4 * groups)]
        count = len(group)
        process_of = assign_rows(Work(group, [prompt] * count, [11] * count, [True] * count), processes, 1000)
        return [len(set(process_of[4 * number : 4 * number + 4])) for number in range(groups)]

    assert processes_of_groups(groups=8, prompt=100, processes=4) == [1] * 8
    assert processes_of_groups(groups=2, prompt=100, processes=4) == [2] * 2


ROWS = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 50), st.booleans()), min_size=1, max_size=40)


@given(ROWS, st.integers(1, 3), st.integers(1, 5))
@settings(deadline=None, max_examples=50)
def test_the_fullest_process_has_no_more_than_the_mean_and_a_row(
    rows: list[tuple[int, int, bool]], minibatches: int, processes: int
) -> None:
    group, lengths, learns = (list(column) for column in zip(*sorted(rows), strict=True))
    work = Work(group, [3] * len(group), lengths, learns)
    process_of = assign_minibatches(work, minibatches, processes, 0)
    costs = positions(work) * torch.tensor(learns)
    for part in whole_groups(torch.tensor(group), minibatches):
        loads = costs.new_zeros(processes).index_add(0, process_of[part], costs[part])
        if len(part):
            assert loads.max() <= loads.mean() + costs[part].max()
    assert set(process_of.tolist()) <= set(range(processes))


def test_a_row_may_learn_if_it_is_selected_and_the_rewards_of_its_group_differ_in_any_kind() -> None:
    batch = TokenBatch(
        mask=torch.ones(8, 2, dtype=torch.bool),
        group=torch.tensor([4, 4, 7, 7, 5, 5, 9, 9]),
        reward=torch.tensor([1.0, 0, 1, 1, 1, 1, 0, 1]),
        rewards=torch.tensor([[1.0, 0], [0, 0], [1, 0], [0, 1], [1, 0], [1, 0], [0, 0], [1, 0]]),
        selected=torch.tensor([True, True, True, True, True, True, True, False]),
    )
    assert may_learn(batch).tolist() == [True, True, True, True, False, False, True, False]
