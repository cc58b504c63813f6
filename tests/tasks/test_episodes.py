"""Episodes of `task.environment`: no state leaks, seeds hold, and no class of the user ends a run."""

import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Timer

import psutil
import pytest

from rlzoo.config import TaskConfig
from rlzoo.config.recorded import outside_names
from rlzoo.errors import UserError
from rlzoo.tasks import check_task
from rlzoo.tasks.base import Problem
from rlzoo.tasks.environment_class import tool_schemas
from rlzoo.tasks.episodes import EpisodePool
from rlzoo.tasks.sandbox import MOST_TIMED_OUT
from rlzoo.tasks.tools import LONGEST_ANSWER, MOST_CALLS
from tests.rollout.episodes import ENVIRONMENTS, begin, make_calls, respond

PROBLEM = Problem("1", "What is 2+3?", "5")


@pytest.fixture(autouse=True)
def environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of environments, in the folder that the test works in."""
    monkeypatch.chdir(tmp_path)
    Path("envs.py").write_text(ENVIRONMENTS)


def config(name: str, *rewards: str, timeout: float = 10.0) -> TaskConfig:
    named = [f"./envs.py:{reward}" for reward in rewards]
    return TaskConfig(environment=f"./envs.py:{name}", reward=named, tool_timeout=timeout)


@contextmanager
def pool(config: TaskConfig, workers: int = 2) -> Iterator[EpisodePool]:
    with EpisodePool.of(replace(config, grader_workers=workers)) as pool:
        yield pool


def called(name: str, **arguments: object) -> str:
    return json.dumps({"name": name, "arguments": arguments})


ADD = called("add", a=2, b=3)


def test_no_state_leaks_from_one_episode_to_another_of_its_group_or_to_the_next() -> None:
    with pool(config("Counting", "reward_func")) as episodes:
        for _ in range(2):
            assert [it.text for it in begin(episodes, [PROBLEM] * 4, [1] * 4)] == [""] * 4
            first = make_calls(episodes, [(0, [ADD, ADD]), (1, [ADD]), (3, [ADD])])
            second = make_calls(episodes, [(0, [ADD]), (3, [called("fail")])])
            # The reward counts this episode's calls, and the class has begun one instance in its process.
            assert [[answer.text.split()[:2] for answer in row] for row in first] == [
                [["0.25", "1"], ["0.5", "1"]],
                [["0.25", "1"]],
                [["0.25", "1"]],
            ]
            assert second[0][0].text.startswith("0.75 1 ")
            assert second[1][0].is_error and "ValueError: Game over." in second[1][0].text
            assert [it.grade.reward for it in episodes.grade([""] * 4)] == [0.75, 0.25, 0.0, 0.25]


def test_an_episode_depends_on_its_seed_alone_whatever_other_episodes_and_processes_there_are() -> None:
    with pool(config("Showing"), workers=1) as alone, pool(config("Showing"), workers=3) as together:
        several = [answer.text for answer in begin(together, [PROBLEM] * 5, [1, 1, 2, 3, 3])]
        assert several[0] == several[1] and several[3] == several[4] and len(set(several)) == 3
        assert [answer.text for answer in begin(alone, [PROBLEM] * 2, [3, 1])] == [several[4], several[0]]


def test_a_class_as_trl_takes_it_has_the_row_and_its_methods_are_tools() -> None:
    problem = Problem("1", "What is 2+3?", "5", {"level": 1, "kind": "sum"})
    with pool(config("Counting", "columns_func")) as episodes:
        begin(episodes, [problem], [1])
        assert episodes.grade([""])[0].grade.reward == len({"prompt", "answer", "level", "kind"})
    schemas = {it["function"]["name"]: it["function"] for it in tool_schemas(config("Showing"))}
    assert list(schemas) == ["add", "fail"]  # neither reset nor get_reward
    assert schemas["add"]["parameters"]["required"] == ["a", "b"]


def test_the_rewards_of_functions_and_of_the_environment_are_weighted_in_this_order() -> None:
    both = config("Showing", "reward_func", "columns_func")
    both.reward_weights = [1.0, 10.0, 100.0]
    with pool(both) as episodes:
        begin(episodes, [PROBLEM], [1])
        make_calls(episodes, [(0, [ADD, ADD])])
        grade = episodes.grade([""])[0].grade
    assert grade.rewards == (0.5, 2.0, 0.5) and grade.reward == 0.5 + 20.0 + 50.0


def test_what_a_user_says_is_text_or_the_end_and_needs_no_tool() -> None:
    talking = config("Talking")
    check_task(talking)
    assert tool_schemas(talking) == []
    with pool(talking) as episodes:
        begin(episodes, [PROBLEM] * 2, [1] * 2)
        lost, (empty,) = respond(episodes, [(0, "text"), (1, "")])
        assert lost == [] and (empty.text, empty.role, empty.is_error) == ("", "user", False)
        assert [it.outcome for it in episodes.grade([""] * 2)] == ["failed", "graded"]
    with pool(config("Asking")) as episodes:
        begin(episodes, [PROBLEM], [1])
        assert make_calls(episodes, [(0, [ADD])])[0][0].role == "tool", "the user hears no turn with a call"
        assert [it.text for it in respond(episodes, [(0, "so")])[0]] == ["And 1?"]
        assert respond(episodes, [(0, "so on")], is_truncated=True) == [[]]
        assert episodes.grade([""])[0].grade.reward == 1.0, "it was told one turn"


def test_the_calls_of_a_turn_have_their_time_together() -> None:
    with pool(config("Resting", timeout=1.0)) as episodes:
        begin(episodes, [PROBLEM] * 2, [1] * 2)
        long, short = make_calls(episodes, [(0, [called("rest")] * 3), (1, [called("rest", seconds=2.0)])])
        assert [it.text for it in long] == ["rested"] * 3 and "more than 1 seconds" in short[0].text


def test_methods_may_be_asynchronous() -> None:
    with pool(config("Asynchronous")) as episodes:
        begin(episodes, [PROBLEM], [1])
        assert make_calls(episodes, [(0, [ADD])])[0][0].text == "added"
        assert episodes.grade([""])[0].grade.reward == 1.0


@pytest.mark.slow
def test_no_hostile_class_ends_anything_and_other_episodes_of_its_process_are_not_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hostile = {
        "hang": "error: it took more than 1 seconds",
        "leave": "error: it ended its process",
        "stop": "error: SystemExit: 3",
        "talk": "<|im_end|>yyy",
        "spoil": "NaN",
        "unknown": "error: there is no tool of that name",
    }
    with pool(config("Hostile", timeout=1.0), workers=1) as episodes:
        shown = begin(episodes, [PROBLEM] * 7, [1] * 7)
        assert all(len(it.text) < LONGEST_ANSWER + 100 and it.text.startswith("xxx") for it in shown)
        first = make_calls(episodes, [(6, [ADD]), *((row, [called(name)]) for row, name in enumerate(hostile))])
        for answer, told in zip(first[1:], hostile.values(), strict=True):
            assert answer[0].text.startswith(told) and len(answer[0].text) < LONGEST_ANSWER + 100
        further = make_calls(episodes, [(row, [ADD]) for row in range(7)])
        lost = [answer[0].text.startswith("error: the environment is lost: it ") for answer in further]
        assert lost == [True, True, False, False, False, False, False]
        graded = episodes.grade(["text"] * 7)
        # Hung, ended and spoilt episodes have the reward of one in which nothing was done.
        assert [it.grade.reward for it in graded] == [0.125, 0.125, 0.375, 0.375, 0.125, 0.375, 0.625]
        assert [it.outcome for it in graded] == ["failed", "failed", "graded", "graded", "failed", "graded", "graded"]
        begin(episodes, [PROBLEM], [1])
        assert not make_calls(episodes, [(0, [ADD])])[0][0].is_error
    assert "Hostile: an episode is lost: it took more than 1 seconds" in caplog.text
    assert "the value of get_reward is nan; it must be a number" in caplog.text


@pytest.mark.slow
def test_episodes_act_side_by_side_and_the_calls_of_one_in_turn() -> None:
    with pool(config("Hostile", timeout=2.0), workers=1) as episodes:
        begin(episodes, [PROBLEM] * 20, [1] * 20)
        started = time.monotonic()
        hung = make_calls(episodes, [(row, [called("hang")]) for row in range(1, 20)])
        assert time.monotonic() - started < 20, "19 calls that hang take 38 s one after another"
        told = [answer.text for (answer,) in hung]
        assert told.count("error: it took more than 2 seconds") == told.index("error: it took more than 1 seconds")
        assert told.count(told[0]) >= MOST_TIMED_OUT
        (several,) = make_calls(episodes, [(0, [ADD] * 40)])
        made = [f"{0.125 + 0.25 * it:g}" for it in range(1, MOST_CALLS + 1)]
        assert [answer.text.split()[0] for answer in several] == [*made, "error:"]
        assert episodes.grade([""] * 20)[0].grade.reward == float(made[-1])


@pytest.mark.parametrize("name", ["Unwilling", "Unmade", "Wordy"])
def test_an_episode_that_cannot_begin_is_told_to_the_model_and_earns_nothing(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    told = {"Unwilling": "RuntimeError: not today", "Unmade": "it ended its process", "Wordy": "reset returned 7"}
    with caplog.at_level(logging.WARNING), pool(config(name, "reward_func")) as episodes:
        assert [(it.text, it.is_error) for it in begin(episodes, [PROBLEM] * 3, [1] * 3)] == [("", True)] * 3
        answer = make_calls(episodes, [(1, [ADD])])[0][0]
        assert answer.is_error and told[name] in answer.text
        graded = episodes.grade([""] * 3)
    assert [(it.grade.reward, it.grade.rewards, it.outcome) for it in graded] == [(0.0, (0.0, 0.0), "failed")] * 3
    assert caplog.text.count(told[name]) == 1


def killed(episodes: EpisodePool, while_asked: bool) -> None:
    """Ends the processes of all episodes, before they are asked again or while they are."""
    template = psutil.Process(episodes._template._process.pid)
    if not while_asked:
        template.kill()
        template.wait()
        return
    template.suspend()
    for worker in template.children():
        worker.suspend()
    Timer(0.2, template.kill).start()


@pytest.mark.parametrize("while_asked", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_what_a_template_has_that_is_killed_from_outside_is_done_and_graded_as_if_it_had_not_been(
    while_asked: bool,
) -> None:
    outcomes = []
    with pool(config("Showing"), workers=2) as episodes:
        for is_killed in (False, True):
            shown = begin(episodes, [PROBLEM] * 4, [1, 2, 3, 4])
            asked = [(row, [ADD] * row) for row in range(4)]
            answers = [make_calls(episodes, asked)]
            for _ in range(2):
                if is_killed:
                    killed(episodes, while_asked)
                answers.append(make_calls(episodes, asked))
            if is_killed:
                killed(episodes, while_asked)
            outcomes.append((shown, answers, episodes.grade([""] * 4)))
    assert outcomes[0] == outcomes[1]
    assert [graded.grade.reward for graded in outcomes[1][2]] == [0.0, 0.75, 1.5, 2.25]


def test_an_episode_that_kills_its_template_ends_no_run_and_no_episode_of_another(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pool(config("Striking"), workers=2) as episodes:
        shown = begin(episodes, [PROBLEM] * 4, [1, 2, 3, 4])
        answers = make_calls(episodes, [(0, [ADD]), (1, [called("strike")]), (2, [ADD]), (3, [ADD])])
        assert [row[0].is_error for row in answers] == [False, True, False, False]
        assert [graded.grade.reward for graded in episodes.grade([""] * 4)] == [0.25, 0.0, 0.25, 0.25]
        assert begin(episodes, [PROBLEM] * 4, [1, 2, 3, 4]) == shown
    assert "an episode is lost: it was ended from outside" in caplog.text


@pytest.mark.parametrize("asked", [(0, 1), (0,)])
def test_an_episode_that_is_another_once_it_is_begun_again_is_lost(asked: Sequence[int]) -> None:
    with pool(config("Fickle"), workers=2) as episodes:
        begin(episodes, [PROBLEM] * 2, [1, 2])
        psutil.Process(episodes._waiting[1][0].process).kill()
        answers = make_calls(episodes, [(row, [ADD]) for row in asked])
        assert not answers[0][0].is_error
        assert all("did something else" in answer.text for row in answers[1:] for answer in row)
        assert [graded.outcome for graded in episodes.grade([""] * 2)] == ["graded", "failed"]


def test_the_guides_counter_shows_its_number_counts_and_rewards_it() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "turns.md").read_text(encoding="utf-8")
    (code,) = (it for it in guide.split("```") if it.startswith("python\n") and "class Counter" in it)
    Path("envs.py").write_text(code.removeprefix("python\n"))
    with pool(config("Counter", "reward")) as episodes:
        shown = begin(episodes, [PROBLEM] * 2, [1, 1])
        wanted = int(shown[0].text.removeprefix(" It is ").rstrip("."))
        (right,), (wrong,) = make_calls(episodes, [(0, [called("add", number=wanted)]), (1, [called("add", number=1)])])
        assert (right.text, wrong.text) == (f"{wanted} of {wanted}", f"1 of {wanted}")
        assert [it.grade.reward for it in episodes.grade(["", ""])] == [1.0, 0.0]


LEFT_ALONE = """
from pathlib import Path
from rlzoo.config import TaskConfig
from rlzoo.tasks.base import Problem
from rlzoo.tasks.environments import Start, Turn
from rlzoo.tasks.episodes import EpisodePool

if __name__ == "__main__":
    config = TaskConfig(environment="./envs.py:Noted", tool_timeout=3.0, grader_workers=2)
    with EpisodePool.of(config) as episodes:
        episodes.reset([Start(Problem("1", "q", "5"), 1, row) for row in range(6)], 0)
        Path("begun").touch()
        episodes.step({0: Turn('<tool_call>{"name": "hang"}')})
"""


@pytest.mark.slow
def test_no_process_of_an_episode_outlives_a_run_that_is_killed() -> None:
    Path("left.py").write_text(LEFT_ALONE)
    run = subprocess.Popen([sys.executable, "left.py"])
    try:
        wait_until(lambda: Path("begun").exists(), 60)
        numbers = [int(path.name) for path in Path("noted").iterdir()]
        assert len(numbers) == 6
    finally:
        run.kill()
        run.wait()
    wait_until(lambda: not any(Path("/proc", str(number)).exists() for number in numbers), 15)


def wait_until(is_so: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_what_cannot_be_used_is_one_line_that_names_key_value_and_remedy() -> None:
    wrong = {
        "Counting": r"task\.environment=\./envs\.py:Counting gives no reward; write def get_reward",
        "reward_func": "and not a class; give one that takes no arguments",
        "Unsettled": "has no method reset; write def reset",
        "Mute": "has no public method that the model could call, nor turn_answer; write one",
        "Countin": "has no Countin; did you mean Counting",
    }
    for name, told in wrong.items():
        with pytest.raises(UserError, match=told):
            check_task(config(name))
    check_task(config("Counting", "reward_func"))
    more = {
        "wrong_reward": (-1.0, "task.wrong_reward=-1.0 has no effect on task.environment"),
        "tools": (["./envs.py:Showing.add"], "neither my_module:name nor"),
        "reward_weights": ([1.0, 2.0], "are 2 for 0 functions in task.reward and get_reward in task.environment"),
        "teacher_prompt": ("{prompt} {answer}", "task.teacher_prompt=.* has no effect on a task with task.environment"),
    }
    for key, (value, told) in more.items():
        with pytest.raises(UserError, match=told):
            wrong_config = config("Showing")
            setattr(wrong_config, key, value)
            check_task(wrong_config)
    Path("more.py").write_text("def add(a: int) -> int:\n    return a\n")
    twice = config("Showing")
    twice.tools = ["./more.py:add"]
    with pytest.raises(UserError, match=r"task\.tools=\./more\.py:add: a method of task\.environment=.* rename one"):
        check_task(twice)
    with pytest.raises(UserError, match=r"asks for environments; set task\.environment="):
        from rlzoo.tasks import load_task

        len(load_task(TaskConfig(name="sums", reward=["./envs.py:reward_func"])).train)


def test_an_environment_that_a_recorded_file_names_is_code() -> None:
    named = {"./envs.py:Showing": "task.environment=./envs.py:Showing"}
    assert outside_names({"task.environment": "./envs.py:Showing"}) == named


def test_removed_environments_are_one_line_that_says_what_to_do() -> None:
    with pytest.raises(UserError, match=r"^task\.name=verifiers:my-env: .* were removed; write their rows"):
        check_task(TaskConfig(name="verifiers:my-env"))
    with pytest.raises(UserError, match=r"^task\.environment=openenv:h: .* were removed; write a class"):
        check_task(TaskConfig(environment="openenv:h"))
