"""Anybody's responses are graded line by line, and nothing of theirs is lost."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rlzoo.commands import main
from rlzoo.files import read_json_lines
from rlzoo.tasks import grade
from tests.conftest import error_of

ROLES = "(1) Zoey is a knight"
LINES = [
    {"gold": "103", "response": r"\boxed{103 \text{ cm}}", "id": 7, "mine": [1, "é"]},
    {"gold": "103", "response": r"\boxed{104} or \boxed{103}", "correct": "what it was before"},
    {"gold": 5, "response": "#### 5", "data_source": "openai/gsm8k"},
    {"gold": ROLES, "response": f"so</think><answer>{ROLES}</answer>", "data_source": "kk", "prompt": "?"},
    {"gold": ROLES, "response": f"so</think><answer>{ROLES}</answer>", "data_source": "kk_logic", "prompt": "<think>"},
    {"gold": ["1", "2"], "response": r"\boxed{2} and \boxed{1}", "prompt": [{"role": "user", "content": "?"}]},
    {"gold": "7", "response": r"\boxed{9^{9^{9^{9}}}}"},
    {"gold": "7", "response": "seven"},
]


def write(path: Path, lines: Sequence[Any]) -> Path:
    path.write_text("\n\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


@pytest.mark.slow
def test_lines_keep_what_they_have_and_gain_grade_answer_and_outcome(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, target = write(tmp_path / "answers.jsonl", LINES), tmp_path / "new" / "graded.jsonl"
    assert main(["grade", str(file), f"output={target}", "timeout=2", "workers=2"]) == 0
    assert capsys.readouterr().out == (
        f"4 of 8 correct (50.0 %); 2 without an answer; 7 graded, 1 timed out; written to {target}\n"
    )
    written = read_json_lines(target)
    assert [line["correct"] for line in written] == [1, 0, 1, 0, 1, 1, 0, 0]
    answers = [r"103 \text{ cm}", r"104 \text{ or } 103", "5", None, "Zoey is a knight", "2, 1", "9^{9^{9^{9}}}", None]
    assert [line["answer"] for line in written] == answers
    assert [line["outcome"] for line in written] == ["graded"] * 6 + ["timed_out", "graded"]
    graded = {"correct", "answer", "outcome"}
    for line, before in zip(written, LINES, strict=True):
        assert {k: v for k, v in line.items() if k not in graded} == {
            k: v for k, v in before.items() if k not in graded
        }


def test_an_output_is_replaced_only_if_that_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "answers.jsonl", LINES[:1])
    before = file.read_bytes()
    assert "overwrite=true replaces it" in error_of(capsys, "grade", file, f"output={file}")
    assert file.read_bytes() == before
    assert main(["grade", str(file), f"output={file}", "overwrite=true"]) == 0
    assert [line["correct"] for line in read_json_lines(file)] == [1]
    assert [path.name for path in tmp_path.iterdir()] == ["answers.jsonl"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"gold": "7", ', "line 3 is not JSON"),
        ("7", "line 3 is not an object"),
        ({"gold": "7"}, "line 3 has no response"),
        ({}, "line 3 has no gold and no response"),
        ({"gold": "7", "response": 7}, "line 3: response must be text, not 7"),
        ({"gold": "", "response": "7"}, "line 3 has no answer"),
        ({"gold": "7", "response": "7", "data_source": "kk_logic"}, "line 3 has no roles in its gold answer"),
        ({"gold": "7", "response": "7", "prompt": 7}, "line 3 has a question that is neither text nor chat messages"),
        ({"gold": "7", "response": "\ud800"}, "line 3 has half of a character"),
    ],
)
def test_a_line_that_cannot_be_graded_is_one_error_with_its_number(
    line: object, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "answers.jsonl", [LINES[0], line])
    assert f"answers.jsonl {says}" in error_of(capsys, "grade", file, f"output={tmp_path / 'out.jsonl'}")
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "output= names no file"),
        (["output=."], "output=. is a folder"),
        (["output=out.jsonl", "workers=0"], "workers=0 must be at least 1"),
        (["output=out.jsonl", "timeout=0"], "timeout=0 must be greater than 0"),
        (["output=out.jsonl", "worker=2"], "did you mean workers"),
        (["output=answers.jsonl/out.jsonl"], "cannot be written"),
    ],
)
def test_a_wrong_key_is_one_clear_error(
    words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("answers.jsonl"), LINES[:1])
    assert says in error_of(capsys, "grade", "answers.jsonl", *words)


def test_a_file_that_is_not_there_or_empty_is_one_clear_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = f"output={tmp_path / 'out.jsonl'}"
    assert "there is no such file" in error_of(capsys, "grade", tmp_path / "nothing.jsonl", output)
    assert "holds no line" in error_of(capsys, "grade", write(tmp_path / "empty.jsonl", ["", ""]), output)


def test_the_grader_stands_by_itself() -> None:
    assert grade("1/2", r"So \boxed{0.5}.").correct == 1
    assert grade("1/2", "So 0.5.").correct == 0
    assert grade(ROLES, f"<think></think><answer>{ROLES}</answer>", "kk_logic").reward == 3
    with pytest.raises(ValueError, match="no answer"):
        grade("", r"\boxed{0.5}")
