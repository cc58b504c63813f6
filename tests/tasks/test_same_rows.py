"""Two rows are the same only if all that the model reads and the gold are the same; splits share no prompt."""

import itertools
import json
import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlzoo.config import TaskConfig
from rlzoo.tasks import Problem, Task, load_task
from rlzoo.tasks.text import prompt_key

_words = st.sampled_from(["", "1+1?", "1+2?", "Be short.", "yes"])
_message = st.builds(lambda role, text: {"role": role, "content": text}, st.sampled_from(["system", "user"]), _words)
_prompt = st.one_of(
    _words,
    st.lists(_message, min_size=1, max_size=3).map(lambda before: [*before, {"role": "user", "content": "1+1?"}]),
).filter(lambda prompt: bool(prompt) and (isinstance(prompt, str) or all(message["content"] for message in prompt)))
_rows = st.lists(st.tuples(_prompt, st.sampled_from(["2", "3", "0.50"])), min_size=2, max_size=12)


def loaded(folder: Path, rows: list[tuple[Any, str]], **keys: Any) -> Task:
    lines = [json.dumps({"prompt": prompt, "answer": answer}) for prompt, answer in rows]
    (folder / "rows.jsonl").write_text("\n".join(lines))
    return load_task(TaskConfig(str(folder / "rows.jsonl"), **keys))


def read_by_the_model(problem: Problem) -> str:
    return json.dumps(problem.prompt)


def asked(prompt: Any) -> str:
    return json.dumps([{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
@given(rows=_rows)
def test_no_row_is_lost_or_changed_and_the_splits_share_no_prompt(rows: list[tuple[Any, str]], tmp_path: Path) -> None:
    task = loaded(tmp_path, rows)
    prompts = {asked(prompt) for prompt, _ in rows}
    if len(prompts) == 1:
        return
    in_file = Counter((asked(prompt), answer) for prompt, answer in rows)
    trained = Counter((read_by_the_model(problem), problem.answer) for problem in task.train)
    held_out = Counter((read_by_the_model(problem), problem.answer) for problem in task.held_out)
    assert not {prompt for prompt, _ in trained} & {prompt for prompt, _ in held_out}
    assert trained.keys() | held_out.keys() == in_file.keys()
    assert all(trained[row] in (0, in_file[row]) for row in in_file) and set(held_out.values()) == {1}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
@given(rows=_rows, swap=st.randoms(use_true_random=False))
def test_what_is_held_out_stays_so_where_rows_move(rows: list[tuple[Any, str]], swap: Any, tmp_path: Path) -> None:
    if len({asked(prompt) for prompt, _ in rows}) == 1:
        return
    before = {read_by_the_model(problem) for problem in loaded(tmp_path, rows).held_out}
    moved = swap.sample(rows, len(rows))
    assert {read_by_the_model(problem) for problem in loaded(tmp_path, moved).held_out} == before


def test_a_prompt_with_two_golds_is_two_problems_of_one_split_and_that_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [(f"{n}?", str(answer)) for n, answer in itertools.product(range(9), (1, 2))]
    with caplog.at_level(logging.WARNING):
        task = loaded(tmp_path, rows, held_out_rows=3)
        assert len(task.held_out) == 6 and len(task.train) == 12
    assert "9 rows ask what others ask, for another gold answer; all are kept" in caplog.text
    assert len({problem.id for problem in [*task.train, *task.held_out]}) == 18


@pytest.mark.parametrize(
    "keys",
    [
        {"system_prompt": "Think."},
        {"instruction": "Box it."},
        {"instruction": " Box it."},
        {"system_prompt": "Think.", "instruction": "Box it."},
    ],
)
@pytest.mark.parametrize(
    "behind", [[], [{"role": "assistant", "content": "So"}], [{"role": "user", "content": "Answer."}]]
)
def test_what_is_said_beside_every_question_moves_none_of_them_to_the_other_side(
    behind: list[dict[str, str]], keys: dict[str, str], tmp_path: Path
) -> None:
    rows = [([{"role": "user", "content": f"{n}?"}, *behind], str(n)) for n in range(40)]
    plain, told = loaded(tmp_path, rows), loaded(tmp_path, rows, **keys)
    assert {problem.answer for problem in plain.held_out} == {problem.answer for problem in told.held_out}


def test_rows_that_only_a_system_prompt_tells_apart_are_one_where_it_is_replaced(tmp_path: Path) -> None:
    rows = [([{"role": "system", "content": f"{n}"}, {"role": "user", "content": f"{n % 4}?"}], "1") for n in range(8)]
    task = loaded(tmp_path, rows, system_prompt="Think.", held_out_rows=1)
    assert len(task.held_out) == 1 and len(task.train) == 6


def test_prompts_that_only_a_call_of_a_tool_tells_apart_are_two() -> None:
    turn = {"role": "assistant", "content": ""}
    prompts = [[{"role": "user", "content": "?"}, {**turn, "tool_calls": [{"name": name}]}] for name in ("add", "sub")]
    assert prompt_key(prompts[0]) != prompt_key(prompts[1]) == prompt_key([dict(it) for it in prompts[1]])
