"""Tasks from outside: by import path, by file, by entry point."""

import os
from pathlib import Path
from typing import Any

import pytest

import rlzoo.tasks
from rlzoo.config import TaskConfig
from rlzoo.errors import UserError
from rlzoo.tasks import Grade, load_task
from rlzoo.tasks.grading import GraderPool

GUIDE = (Path(__file__).parents[2] / "docs/guides/own_task.md").read_text(encoding="utf-8")
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

    @property
    def held_out(self):
        return [Problem(f"h{n}", PROMPT.format(-n), str(-n)) for n in range(1, 4)]

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

class Sound:
    name = "sound"
    train = [Problem(f"t{n}", PROMPT.format(n), str(n)) for n in range(4)]
    held_out = [Problem(f"h{n}", PROMPT.format(n), str(n)) for n in range(7, 9)]
    grader = Grader()

    def final_answer(self, problem, response):
        return response

class Overlapping(Sound):
    held_out = [Sound.held_out[0], Problem("again", PROMPT.format(3), "3")]

class Acting(Sound):
    environment = object

class Told(Sound):
    held_out = [Problem("h", PROMPT.format(3), "3", {"seed": 1})]

class Chatting(Sound):
    train = [Problem("t", [{"role": "user", "content": "Hi", "name": "me"}], "a")]
    held_out = [Problem("h", ({"role": "user", "content": "Hi"},), "b")]

class Yielding(Sound):
    train = (problem for problem in Sound.train)

class Bare(Sound):
    train = ["1="]

class Numbered(Sound):
    train = [Problem("t0", "0=", 0)]

class Promptless(Sound):
    train = [Problem("t0", [{"role": "user"}], "0")]

class Broken(Sound):
    @property
    def train(self):
        raise OSError("no data here")

class Listing(Sound):
    def final_answer(self, problem, response):
        return [response]

class Failing(Sound):
    def final_answer(self, problem, response):
        return response[5]

class Whole:
    def __init__(self, value):
        self.value = value

    def __call__(self, problem, response):
        return self.value

def graded(value):
    task = Sound()
    task.grader = Whole(value)
    return task
"""


ENVIRONMENT = """
class Counter:
    def reset(self, seed=0):
        self.count = seed

    def add(self) -> int:
        \"\"\"Counts.\"\"\"
        self.count += 1
        return self.count

    def get_reward(self):
        return float(self.count)
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
        (
            {"name": "my_missing_task:Count"},
            r"No module named .my_missing_task.; go to the folder where my_",
        ),
        ({"name": "./script.py:Count"}, r"script\.py cannot be imported: SystemExit: 0 \(script\.py line 2\)"),
        ({"name": "my_task:leaves"}, r"my_task:leaves failed: SystemExit: 0"),
        ({"name": "my_task:Coumt"}, r"my_task has no Coumt; did you mean Count\?"),
        ({"name": "my_task:Half"}, r"has no grader, no final_answer; a task has name, train, held_out, grader, final_"),
        ({"name": "my_task:fails"}, r"failed: ValueError: no data here \(my_task\.py line \d+\)"),
        ({"name": "my_task:Count", "options": {"strat": 1}}, r"task\.options\.strat .*did you mean start\?"),
        ({"name": "my_task:Count", "wrong_reward": -1.0}, r"my_task:Count takes no wrong_reward"),
        ({"name": "my_task:Acting"}, r"attribute environment is no longer read; name a class with task\.environment="),
        ({"name": "my_task:Count", "split": "test"}, r"task\.split='test' has no effect on a task from outside"),
    ],
)
def test_a_mistake_is_one_line(keys: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says) as caught:
        load_task(TaskConfig(**keys))
    assert os.linesep not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "Overlapping",
            r"1 of its 2 held-out problems are training problems as well, for example '3=' \(again\); leave",
        ),
        ("Chatting", r"1 of its 1 held-out problems are training problems"),
        ("Yielding", r"train is a generator; it must be a list of rlzoo\.tasks\.Problem"),
        ("Bare", r"train\[0\] is '1='; it must be a rlzoo\.tasks\.Problem"),
        ("Numbered", r"train\[0\] has the answer 0; it must be text"),
        ("Promptless", r"train\[0\] has the prompt .*; it must be text, or messages with role and content"),
        ("Broken", r"train failed: OSError: no data here \(my_task\.py line \d+\)"),
    ],
)
def test_problems_that_cannot_be_used_or_are_held_out_as_well_are_refused_in_one_line(name: str, says: str) -> None:
    with pytest.raises(UserError, match=rf"^task\.name=\./my_task\.py:{name}: {says}") as caught:
        _ = load_task(TaskConfig(f"./my_task.py:{name}")).train
    assert os.linesep not in str(caught.value)


def test_problems_that_only_an_environment_tells_apart_may_share_a_prompt() -> None:
    Path("my_environment.py").write_text(ENVIRONMENT)
    told = TaskConfig("./my_task.py:Told", environment="./my_environment.py:Counter")
    assert len(load_task(told).train) == 4
    with pytest.raises(UserError, match="1 of its 1 held-out problems are training problems"):
        _ = load_task(TaskConfig("./my_task.py:Told")).train


@pytest.mark.parametrize(
    ("name", "says"), [("Listing", r"returned \['123'\] for h7"), ("Failing", r"failed for h7: Index")]
)
def test_a_final_answer_that_is_none_is_one_line(name: str, says: str) -> None:
    task = load_task(TaskConfig(f"./my_task.py:{name}"))
    with pytest.raises(UserError, match=f"final_answer {says}"):
        task.final_answer(task.held_out[0], "123")


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (
            0.5,
            r"the grader of task\.name returned 0\.5 for t0; it must return a grade: rlzoo\.tasks\.Grade\(reward, corr",
        ),
        (None, r"returned None for t0"),
        ((1.0, 1.0), r"returned \(1\.0, 1\.0\) for t0"),
        (Grade("1", 0.0), r"a reward for t0 is '1'; it must be a number"),  # type: ignore[arg-type]
        (Grade(1.0, 1.0, (float("nan"), 1.0)), r"a reward for t0 is nan; it must be a number from"),
        (Grade(1.0, 1.0, (1e20, 1.0)), r"a reward for t0 is 1e\+20; it must be a number from"),
        (Grade(1.0, 1.0, None), r"the rewards for t0 are None; give a tuple of numbers"),  # type: ignore[arg-type]
        (Grade(1.0, 7), r"the correctness of a response to t0 is 7; it must be a number from 0 to 1"),
    ],
)
def test_what_is_no_grade_is_one_line(value: Any, says: str, caplog: pytest.LogCaptureFixture) -> None:
    task = load_task(TaskConfig("./my_task.py:graded", options={"value": value}))
    with GraderPool(task.grader) as pool, pytest.raises(UserError, match=says) as caught:
        pool.grade(task.train[:1], ["0"])
    assert os.linesep not in str(caught.value) and not caplog.records


def test_whole_numbers_are_a_grade() -> None:
    task = load_task(TaskConfig("./my_task.py:graded", options={"value": Grade(1, True)}))
    with GraderPool(task.grader) as pool:
        (graded,) = pool.grade(task.train[:1], ["0"])
    assert [type(it) for it in (graded.grade.reward, graded.grade.correct)] == [float, float]


def test_the_task_that_the_guide_shows_is_one() -> None:
    Path("my_task.py").write_text(GUIDE.split("```python\n")[1].split("```")[0])
    task = load_task(TaskConfig("./my_task.py:MyTask"))
    assert (len(task.train), len(task.held_out)) == (247, 50)
    first = task.train[0]
    right = f"(){first.answer}"
    with GraderPool(task.grader) as pool:
        graded = pool.grade([first] * 3, [right, "x", ""])
    assert [it.grade for it in graded] == [Grade(1.0, 1.0), Grade(0.0, 0.0), Grade(0.0, 0.0)]
    assert [task.final_answer(first, response) for response in (right, "")] == [first.answer, None]
