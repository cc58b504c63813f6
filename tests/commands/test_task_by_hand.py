"""`rlzoo task` on tasks of several turns: whole conversations are shown, and a person may try one as the model."""

import io
import json
from pathlib import Path

import pytest

from rlzoo.commands import main
from rlzoo.report.by_hand import _lines
from rlzoo.tasks.calculator import calculate
from tests.conftest import error_of

ROOM = ("rollout.max_response_tokens=99", "task.grader_workers=1")
CALCULATOR = ("task.name=calculator", *ROOM)


def call(expression: str) -> str:
    """Of the calculator."""
    return json.dumps({"name": "calculate", "arguments": {"expression": expression}})


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def tried(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], lines: list[str], *words: str
) -> list[str]:
    """What is printed of each problem while a person types the lines."""
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
    assert main(["task", *words, "by_hand=true"]) == 0
    return capsys.readouterr().out.split("\nproblem ")[1:]


def test_whoever_types_as_the_model_is_answered_and_graded_as_the_model_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = tried(monkeypatch, capsys, [], *CALCULATOR)[0].split("\n")[1]
    asked = first.removesuffix("=")
    lines = [f"<tool_call>{call(asked)}</tool_call>", "", f"<tool_call>{call('1+')}</tool_call>", "5"]
    called, failed, third = tried(monkeypatch, capsys, lines, *CALCULATOR)
    total = calculate(asked)
    assert f":{total}=" in called and f"gold: {total}; reward 0, correctness 0" in called
    assert "in 2 turns, 1 call, 0 failed" in called
    assert "error" not in called and "in 2 turns, 1 call, 1 failed" in failed
    assert third.startswith("3\n") and "gold" not in third, "the input ended"


def test_the_right_answer_earns_its_reward(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked = tried(monkeypatch, capsys, [], *CALCULATOR)[0].split("\n")[1].removesuffix("=")
    total = calculate(asked)
    (done, _) = tried(monkeypatch, capsys, [str(total)], *CALCULATOR)
    assert "reward 1, correctness 1, graded" in done and "in 1 turn, 0 calls, 0 failed" in done


def test_a_line_that_ends_in_a_backslash_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("one\\\ntwo\\\nthree\nfour\n"))
    assert list(_lines()) == ["one", "two", "three"]


def test_a_state_lasts_for_an_episode_that_is_tried_by_hand(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("adder.py").write_text(
        "class Adder:\n    def reset(self, **columns):\n        self.total = 0\n\n"
        "    def calculate(self, expression: str) -> str:\n"
        '        """Adds.\n\n        Args:\n            expression: a number.\n        """\n'
        "        self.total += int(expression)\n        return str(self.total)\n\n"
        "    def get_reward(self):\n        return float(self.total)\n"
    )
    Path("rows.jsonl").write_text("".join(json.dumps({"question": f"{n}+1="}) + "\n" for n in range(8)))
    lines = [f"<tool_call>{call('3')}</tool_call>", f"<tool_call>{call('4')}</tool_call>", "7"]
    words = (
        "model.name=embedded:calculator",
        "task.name=rows.jsonl",
        "task.environment=./adder.py:Adder",
        "task.tools=[]",
    )
    (done, *_) = tried(monkeypatch, capsys, lines, *words, "task.tools=[]", *ROOM)
    assert ":3=" in done and ":7=" in done and "reward 7" in done and "in 3 turns, 2 calls, 0 failed" in done


@pytest.mark.slow
def test_conversations_are_shown_whole_with_their_calls_and_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["task", *CALCULATOR]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "<tool_call>" in out.partition("responses of")[2] and "heard in" in " ".join(out.split())
    assert "a response," in out and "tokens heard" in " ".join(out.split())


def test_by_hand_is_a_key_of_this_command_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert "by_hand" in error_of(capsys, "train", "by_hand=true")
