from pathlib import Path
from typing import Any

import pytest

from rlzoo import tasks
from rlzoo.config.sections import ColumnsConfig, TaskConfig
from rlzoo.errors import UserError
from rlzoo.tasks import load_task, load_to_grade


def test_names_lead_to_their_tasks(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text('{"question": "1?", "answer": 1}\n')
    names = [
        "arithmetic",
        "knights",
        "planted_arithmetic",
        "reasoning_gym:gcd",
        str(path),
        str(tmp_path),
        "openai/gsm8k",
        "openai/gsm8k:main",
    ]
    assert [load_task(TaskConfig(name=name)).name for name in names] == names


def test_keys_reach_the_task() -> None:
    options = {"min_numbers": 3, "max_numbers": 3}
    config = TaskConfig("reasoning_gym:gcd", options=options, problems=7, instruction="Be brief.", wrong_reward=-1.0)
    task = load_task(config, seed=3, held_out_problems=5)
    assert (len(task.train), len(task.held_out)) == (7, 5)
    assert len(task.held_out[0].prompt) == 1
    assert len(task.held_out[0].data["entry"]["metadata"]["numbers"]) == 3
    assert task.grader(task.held_out[0], "").reward == -1.0
    assert task.train[0] != load_task(config, seed=4).train[0]
    short = load_task(TaskConfig("sums", problems=7, wrong_reward=-1.0, options={"digits": 1})).train[0]
    assert short.data["numbers"][0] < 10


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"name": "arithmetics"},
            r"task\.name=arithmetics is not a task; did you mean arithmetic or planted_arithmetic\?$",
        ),
        ({"name": "reasoning-gym:gcd"}, r"did you mean reasoning_gym:gcd"),
        ({"name": "gsm8k"}, r"task\.name=gsm8k is not a task"),
        ({"name": "reasoning_gym:gdc"}, r"did you mean gcd"),
        ({"name": "missing.parquet"}, r"task\.name=missing\.parquet: there is no such file or folder"),
        ({"name": "./missing"}, r"task\.name=\./missing: there is no such file or folder"),
        ({"name": __file__}, r"is neither parquet, JSON nor CSV"),
        ({"name": "a/b", "held_out": "missing.json"}, r"task\.held_out=missing\.json: there is no such file"),
        ({"name": "a/b", "options": {"digits": 2}}, r"task\.options\.digits=2 has no effect on a dataset"),
        (
            {"name": "sums", "columns": ColumnsConfig(question="x")},
            r"task\.columns\.question='x' has no effect on sums",
        ),
        ({"name": "a/b", "problems": 2}, r"task\.problems=2 has no effect on a dataset"),
        ({"name": "reasoning_gym:gcd", "split": "test"}, r"task\.split='test' has no effect on reasoning_gym"),
        ({"name": "reasoning_gym:gcd", "held_out": "a/b"}, r"task\.held_out='a/b' has no effect"),
        ({"name": "reasoning_gym:gcd", "held_out_split": "x"}, r"task\.held_out_split='x' has no effect"),
        ({"name": "arithmetic", "instruction": "Go."}, r"task\.instruction='Go\.' has no effect on arithmetic"),
        ({"name": "arithmetic", "options": {"digit": 2}}, r"task\.options\.digit .*; did you mean digits\?"),
        ({"name": "arithmetic", "options": {"problems": 2}}, r"task\.options\.problems is not a parameter"),
        ({"wrong_reward": 1.0}, r"task\.wrong_reward=1\.0 must be less than 1"),
    ],
)
def test_a_mistake_is_one_clear_error_that_names_the_key(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        load_task(TaskConfig(**keys))
    assert "\n" not in str(caught.value)


def test_the_names_that_are_suggested_are_tasks_that_load() -> None:
    names = tasks._names()
    assert {*tasks.OWN, "reasoning_gym:gcd", "reasoning_gym:list_functions"} <= {*names} and len(names) > 100
    for name in names:
        assert load_to_grade(TaskConfig(name)).name == name
