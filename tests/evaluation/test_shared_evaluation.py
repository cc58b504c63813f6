"""Processes share an evaluation: each does its part, and the records are those of one process."""

import json
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from rlzoo.evaluation.evaluate import shared_batches
from rlzoo.files import read_json_lines
from tests.evaluation.rank_evaluation import PROBLEMS
from tests.processes import ONE, TWO, launch


@pytest.mark.slow
@given(some.integers(1, 200), some.integers(1, 40), some.integers(1, 9))
def test_every_problem_is_dealt_once_and_no_process_has_much_more_than_another(
    problems: int, size: int, processes: int
) -> None:
    shares = [shared_batches(problems, size, process, processes) for process in range(processes)]
    dealt = [[start + number for start, numbers in share for number in numbers] for share in shares]
    assert sorted(chain(*dealt)) == list(range(problems))
    assert all(start % size == 0 and max(numbers) < size for share in shares for start, numbers in share)
    counts = [len(own) for own in dealt]
    assert max(counts) - min(counts) <= size and counts[0] > 0


def test_one_process_has_whole_batches_in_order() -> None:
    assert shared_batches(10, 4, 0, 1) == [(0, range(4)), (4, range(4)), (8, range(2))]


@pytest.mark.slow
def test_two_processes_evaluate_half_each_to_the_records_of_one(tiny_model: Path, tmp_path: Path) -> None:
    records = {}
    for name, launcher in (("one", ONE), ("two", TWO)):
        (tmp_path / name).mkdir()
        launch([*launcher, "-m", "tests.evaluation.rank_evaluation", tiny_model, tmp_path / name])
        records[name] = read_json_lines(tmp_path / name / "records.jsonl")
    both = [json.loads((tmp_path / "two" / f"{process}.json").read_text()) for process in (0, 1)]
    assert [each["evaluated"] for each in both] == [True, False]
    assert [each["said"] for each in both] == [True, True]
    assert all(each["waits"] >= 2 * 3600 for each in both)
    assert min(len(each["problems"]) for each in both) >= PROBLEMS // 2 - 1
    for one, two in zip(records["one"], records["two"], strict=True):
        assert two == one | {"entropy": pytest.approx(one["entropy"], rel=1e-4)}
