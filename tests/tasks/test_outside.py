"""Tasks from outside: by import path, by file, by entry point."""

import os
from pathlib import Path
from typing import Any

import pytest

import rlzoo.tasks
from rlzoo.config import TaskConfig
from rlzoo.errors import UserError
from rlzoo.tasks import load_task
from rlzoo.tasks.grading import GraderPool

TASK = """
from dataclasses import dataclass

from my_prompts import PROMPT
from rlzoo.tasks import Grade, Problem

@dataclass(frozen=True)
class Grader:
    wrong: float = 0.0

    def __call__(self, problem, response):
        return Grade(1.0 if response == problem.answer else self.wrong, float(response == problem.answer))

@dataclass(frozen=True)
class Count:
    problems: int = 5
    seed: int = 0
    start: int = 0
    name = "count"

    @property
    def train(self):
        return [Problem(str(n), PROMPT.format(n), str(n)) for n in range(self.start, self.start + self.problems)]

    held_out = train

    @property
    def grader(self):
        return Grader()

    def final_answer(self, problem, response):
        return response

class Half:
    name, train, held_out = "half", [], []

def made(start=0):
    return Count(problems=2, start=start)

def fails():
    raise ValueError("no data here")

def leaves():
    raise SystemExit(0)

ready = Count(problems=1)
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_task.py").write_text(TASK)
    (tmp_path / "script.py").write_text("import sys\nsys.exit(0)\n")
    (tmp_path / "my_prompts.py").write_text("PROMPT = '{}='\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.parametrize("name", ["my_task:Count", "./my_task.py:Count", "counting"])
def test_a_task_is_found_by_path_file_and_entry_point(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rlzoo.tasks, "_announced", lambda: {"counting": "my_task:Count"})
    task = load_task(TaskConfig(name, problems=3, options={"start": 7}), seed=4)
    assert [problem.prompt for problem in task.train] == ["7=", "8=", "9="]
    with GraderPool(task.grader) as pool:
        graded = pool.grade(task.train[:2], ["7", "7"])
    assert [one.grade.reward for one in graded] == [1.0, 0.0]
    assert [one.outcome for one in graded] == ["graded"] * 2


def test_a_function_that_makes_a_task_and_a_task_itself_will_do() -> None:
    assert len(load_task(TaskConfig("./my_task.py:made", options={"start": 3})).train) == 2
    assert len(load_task(TaskConfig("./my_task.py:ready")).train) == 1


def test_it_takes_a_reward_from_outside_too() -> None:
    Path("my_reward.py").write_text("def reward(response, gold):\n    return 2.0 * (response == gold)\n")
    task = load_task(TaskConfig("./my_task.py:Count", reward=["./my_reward.py:reward"]))
    assert task.grader(task.train[3], "3").reward == 2.0


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"name": "./missing.py:Count"}, r"there is no file \./missing\.py"),
        ({"name": "my_missing_task:Count"}, r"my_missing_task cannot be imported"),
        ({"name": "./script.py:Count"}, r"script\.py cannot be imported: SystemExit: 0 \(script\.py line 2\)"),
        ({"name": "my_task:leaves"}, r"my_task:leaves failed: SystemExit: 0"),
        ({"name": "my_task:Coumt"}, r"my_task has no Coumt; did you mean Count\?"),
        ({"name": "my_task:Half"}, r"has no grader, no final_answer; a task has name, train, held_out, grader, final_"),
        ({"name": "my_task:fails"}, r"failed: ValueError: no data here \(my_task\.py line \d+\)"),
        ({"name": "my_task:Count", "options": {"strat": 1}}, r"task\.options\.strat .*did you mean start\?"),
        ({"name": "my_task:Count", "wrong_reward": -1.0}, r"my_task:Count takes no wrong_reward"),
        ({"name": "my_task:Count", "split": "test"}, r"task\.split='test' has no effect on a task from outside"),
    ],
)
def test_a_mistake_is_one_line(keys: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says) as caught:
        load_task(TaskConfig(**keys))
    assert os.linesep not in str(caught.value)
