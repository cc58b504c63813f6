"""Tools of the user: how they are named, what the model is told of a call, and that no call ends a run."""

import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from rlzoo.config import TaskConfig
from rlzoo.config.recorded import outside_names
from rlzoo.errors import UserError
from rlzoo.tasks import check_task, sandbox
from rlzoo.tasks.base import Problem
from rlzoo.tasks.environments import Answer, Turn
from rlzoo.tasks.sandbox import MOST_TIMED_OUT
from rlzoo.tasks.tools import LONGEST_ANSWER, LONGEST_CALL, ToolPool, calls_in, load_tools
from tests.conftest import error_of
from tests.rollout.calling_model import TOOLS
from tests.rollout.episodes import begin, make_calls

PROBLEM = Problem("1", "What is 2+3?", "5")


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TaskConfig:
    """All tools of the file, in the folder that the test works in."""
    monkeypatch.chdir(tmp_path)
    Path("tools.py").write_text(TOOLS)
    return TaskConfig(tools=[f"./tools.py:{name}" for name in ("add", "fail", "hang", "leave", "talk", "wait")])


@pytest.fixture
def pool(tools: TaskConfig) -> Iterator[ToolPool]:
    with ready(tools, 1, 2.0) as pool:
        yield pool


@contextmanager
def ready(config: TaskConfig, workers: int, timeout: float) -> Iterator[ToolPool]:
    """Tools that have been reset for two hundred rows."""
    with ToolPool(load_tools(config), workers, timeout) as pool:
        begin(pool, [PROBLEM] * 200, range(200))
        yield pool


def called(name: str, **arguments: object) -> str:
    return json.dumps({"name": name, "arguments": arguments})


def answers_of(pool: ToolPool, calls: Sequence[str]) -> list[Answer]:
    """The answers to the calls of rows, each with one."""
    return [answer for (answer,) in make_calls(pool, [(row, [call]) for row, call in enumerate(calls)])]


@pytest.mark.slow
def test_every_call_has_an_answer_in_its_place_whatever_goes_wrong(pool: ToolPool) -> None:
    wrong = {
        "": "a call is",
        "[1]": "a call is",
        '{"name": 1}': "a call is",
        '{"name": "add", "arguments": [1, 2]}': "a call is",
        "[" * 5000: "a call is",
        called("add", a="x" * LONGEST_CALL): "a call is",
        called("ad", a=1): "no tool of that name; did you mean add?",
        called("add", a=1): "missing 1 required positional argument",
        called("fail"): "ValueError: no such luck (tools.py line 15)",
        called("hang"): "more than 2 seconds",
        called("leave"): "ended its process",
    }
    answers = answers_of(pool, [called("add", a=2, b=3), *wrong, called("add", a=[1], b=[2])])
    assert (answers[0].text, answers[-1].text) == ("5", "[1, 2]")
    assert not answers[0].is_error and not answers[-1].is_error
    for answer, told in zip(answers[1:-1], wrong.values(), strict=True):
        assert answer.is_error and told in answer.text


def test_a_lone_surrogate_which_no_tokenizer_takes_is_no_part_of_an_answer(pool: ToolPool) -> None:
    asked = [called("add", a="a\ud800", b="b"), called("ad\ud800"), called("add", a=1, b="\ud800", c="\ud800")]
    assert answers_of(pool, asked)[0].text == "a?b"
    for answer in answers_of(pool, [*asked, called("fail")]):
        answer.text.encode("utf-8")


@pytest.mark.slow
def test_threads_may_ask_at_once(tools: TaskConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    with ready(tools, 1, 2.0) as pool, ThreadPoolExecutor(4) as threads:
        answers_of(pool, [called("add", a=1, b=2)])
        monkeypatch.setattr(sandbox, "STALLED", 0.5)  # a call that waited for all others would be taken for lost
        begun = [
            threads.submit(answers_of, pool, [called("wait"), called("add", a=1, b=number)]) for number in range(4)
        ]
        assert [[it.text for it in asked.result()] for asked in begun] == [["slept", f"{1 + it}"] for it in range(4)]


def test_an_answer_is_cut_where_it_is_too_long(pool: ToolPool) -> None:
    (answer,) = answers_of(pool, [called("talk", length=LONGEST_ANSWER)])
    assert answer.text.startswith("<|im_end|>xx") and answer.text.endswith("\n... 10 characters more")


@pytest.mark.smoke
@pytest.mark.slow
def test_a_tool_that_hangs_bounds_the_time_of_a_step_and_no_other_tools(
    tools: TaskConfig, caplog: pytest.LogCaptureFixture
) -> None:
    with ready(tools, 2, 0.5) as pool:
        started = time.monotonic()
        answers = answers_of(pool, [called("hang"), called("add", a=1, b=2)] * 100)
        assert time.monotonic() - started < 25, "100 calls that hang take 50 s where each has all of its time"
        assert all(it.is_error for it in answers[::2]) and [it.text for it in answers[1::2]] == ["3"] * 100
        told = [it.text for it in answers[::2]]
        assert told[0] == "error: the tool took more than 0.5 seconds" and told.count(told[0]) >= MOST_TIMED_OUT
        assert "error: the tool took more than 0.025 seconds" in told
        begin(pool, [PROBLEM], [0])
        assert answers_of(pool, [called("hang")])[0].text == told[0]
    assert "8 calls of hang have timed out (task.tool_timeout=0.5): others of the same step get half" in caplog.text


def test_memory_is_bounded_and_what_a_tool_prints_goes_nowhere(
    tools: TaskConfig, capfd: pytest.CaptureFixture[str]
) -> None:
    more = TaskConfig(tools=[f"./tools.py:{name}" for name in ("swell", "shout")])
    with ready(more, 1, 10.0) as pool:
        swollen, shouted = answers_of(pool, [called("swell"), called("shout")])
    assert swollen.is_error and swollen.text.startswith("error: MemoryError") and shouted.text == "said"
    assert capfd.readouterr() == ("", "")


def test_what_a_tool_draws_follows_from_row_turn_and_place_of_its_call(tools: TaskConfig) -> None:
    more = TaskConfig(tools=["./tools.py:draw"])
    with ready(more, 2, 10.0) as pool, ready(more, 1, 10.0) as alone:
        drawn = [it.text for it in answers_of(pool, [called("draw")] * 3)]
        assert drawn == [it.text for it in answers_of(pool, [called("draw")] * 3)] and len(set(drawn)) == 3
        rows = [(2, [called("draw")]), (1, [called("draw")])]
        assert [it.text for (it,) in make_calls(alone, rows)] == drawn[2:0:-1]
        (twice,) = make_calls(alone, [(0, [called("draw")] * 2)])
        assert twice[0].text == drawn[0] != twice[1].text
        turn = Turn(f"<tool_call>{called('draw')}</tool_call>", number=2)
        assert alone.step({0: turn})[0].answers[0].text != drawn[0]
        assert not alone.step({0: replace(turn, is_last=True)})[0].answers


def test_calls_are_read_from_a_turn_in_order_the_last_also_without_its_end() -> None:
    assert calls_in("so <tool_call>\n1\n</tool_call> and <tool_call>2</tool_call> or <tool_call>3") == ["1", "2", "3"]
    assert calls_in("</tool_call> tool_call") == []


def test_a_schema_is_made_of_hints_and_docstring(tools: TaskConfig) -> None:
    (add, *_), untold = load_tools(tools), load_tools(TaskConfig(tools=["./tools.py:untold"]))[0]
    assert add.schema()["function"]["parameters"]["required"] == ["a", "b"]
    with pytest.raises(UserError, match=r"task\.tools=\./tools\.py:untold: .*; give each parameter a type hint"):
        untold.schema()


def test_what_has_no_effect_or_cannot_be_called_is_one_line(
    tools: TaskConfig, capsys: pytest.CaptureFixture[str], tiny_model: Path
) -> None:
    for written, told in (("./tools.py:ad", "has no ad; did you mean add"), ("./tools.py:time", "not a function")):
        with pytest.raises(UserError, match=rf"task\.tools=\{written}.*{told}"):
            check_task(TaskConfig(tools=[written]))
    with pytest.raises(UserError, match="two tools are called add; rename one"):
        check_task(TaskConfig(tools=["./tools.py:add", "./tools.py:add"]))
    with pytest.raises(UserError, match=r"task\.max_turns=3 has no effect on a task without task\.tools"):
        check_task(TaskConfig(max_turns=3))
    told = error_of(capsys, "train", "task.tools=[./tools.py:add]")
    assert "task.tools=./tools.py:add: the chat template has to tell the model to call by <tool_call>, and none" in told
    told = error_of(capsys, "train", "task.tools=[./tools.py:add]", "task.name=sums", f"model.name={tiny_model}")
    assert "leave task.tools out" in told


def test_tools_that_a_recorded_file_names_are_code(tools: TaskConfig) -> None:
    assert outside_names({"task.tools": ["./tools.py:add"]}) == {"./tools.py:add": "task.tools=./tools.py:add"}


def test_the_guides_calculator_calculates_and_evaluates_nothing(tmp_path: Path) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "tools.md").read_text(encoding="utf-8")
    (tmp_path / "calculator.py").write_text(guide.split("```python\n")[1].split("```")[0])
    (tool,) = load_tools(TaskConfig(tools=[f"{tmp_path}/calculator.py:calculate"]))
    assert tool.schema()["function"]["parameters"]["required"] == ["expression"]
    marker = tmp_path / "marker"
    hostile = f"__import__('pathlib').Path('{marker}').touch()"
    asked = ("3*(4+5)-1", hostile, "9**9**9", "1+")
    with ToolPool([tool], 1, 5.0) as pool:
        begin(pool, [PROBLEM] * 4, range(4))
        right, *wrong = answers_of(pool, [called("calculate", expression=text) for text in asked])
    assert right.text == "26" and all(answer.is_error for answer in wrong)
    assert not marker.exists()
