"""Responses are graded line by line, anybody's and kept ones; nothing of theirs is lost or written over unasked."""

import io
import json
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from rlzoo.commands import main
from rlzoo.config import TaskConfig
from rlzoo.config.command_keys import GradeConfig
from rlzoo.errors import UserError
from rlzoo.evaluation.evaluate_target import evaluate_target
from rlzoo.evaluation.grade_file import grade_file, regrade, regraded
from rlzoo.evaluation.kept import read_results
from rlzoo.evaluation.target import read_target
from rlzoo.files import read_json_lines, write_json_lines
from rlzoo.report.evaluation import CHANGES, print_regraded
from rlzoo.report.terminal import Terminal
from rlzoo.tasks import OWN, demonstrated_task, grade, load_task
from rlzoo.tasks.regrading import from_json, grading_keys, to_json
from tests.conftest import error_of
from tests.judge import JUDGE, judging
from tests.thinned import thinned

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


@pytest.mark.parametrize(
    ("gold", "response"),
    [
        ("0.12345678901234567891", "0.12345678901234567891"),
        ("12345678901234567.25", "12345678901234567.25"),
        ("1e400", "10^{400}"),
        ("1.10", "1.1"),
    ],
)
def test_a_gold_is_read_as_a_dataset_reads_it_and_carried_along_as_it_was_written(
    gold: str, response: str, tmp_path: Path
) -> None:
    line = f'{{"gold": {gold}, "response": "\\\\boxed{{{response}}}", "more": [{{"é": {gold}}}]}}'
    file = write(tmp_path / "answers.jsonl", [line])
    grade_file(file, GradeConfig(output=str(tmp_path / "out.jsonl")))
    (graded,) = read_json_lines(tmp_path / "out.jsonl")
    assert graded["correct"] == 1 and (tmp_path / "out.jsonl").read_text().startswith(line[:-1])


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_file_with_a_byte_order_mark_is_read(encoding: str, tmp_path: Path) -> None:
    file = write(tmp_path / "answers.jsonl", LINES[:2])
    file.write_text(file.read_text(), encoding=encoding, newline="\r\n")
    assert grade_file(file, GradeConfig(output=str(tmp_path / "out.jsonl"))).lines == 2


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
        ('{"gold": 1, "gold": 2, "response": "7"}', "line 3 names the column 'gold' twice"),
        ("[" * 20_000, "line 3 is not JSON: it is nested too deep"),
        ('{"gold": 1, "response": "7", "mine": ' + "[" * 900 + "]" * 900 + "}", "line 3 is nested too deep"),
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


# ---- kept responses --------------------------------------------------------------------------------------------------


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """The responses of an evaluation of the embedded model, right ones and wrong ones."""
    words = (f"output={tmp_path / 'out'}", "evaluation.problems=8", "evaluation.samples=4")
    (path,) = evaluate_target(read_target("embedded:sums", words), Terminal(Console(quiet=True)))
    return path


def test_every_record_can_be_graded_again_by_itself(kept: Path) -> None:
    records = read_json_lines(kept)
    assert {record["correct"] for record in records} == {0.0, 1.0}
    assert regraded(records) == records
    wrong = [{**record, "correct": 1 - record["correct"], "reward": 0.5, "final_answer": "?"} for record in records]
    assert regraded(wrong) == records
    cut = [{**record, "outcome": "truncated"} for record in records]
    assert {(record["correct"], record["reward"], record["final_answer"]) for record in regraded(cut)} == {(0, 0, None)}


def test_regrade_writes_beside_and_over_only_if_asked(kept: Path, tmp_path: Path) -> None:
    path = kept
    right, summary = path.read_bytes(), read_results(path.parent)[path.stem]
    records = read_json_lines(path)
    records[0]["correct"] = 1 - records[0]["correct"]
    write_json_lines(path, records)
    console = Console(width=80, record=True, file=io.StringIO())
    (found,) = regrade([path], GradeConfig())
    print_regraded(found, console)
    shown, beside = console.export_text(), found.target
    assert f"1 of {len(records)} grades changed" in shown and records[0]["problem"] in shown
    assert beside.read_bytes() == right and read_json_lines(path) == records
    again = read_results(beside.parent)[beside.stem]
    assert again.pop("regraded_with") and again == summary
    assert [it.target for it in regrade([path, beside], GradeConfig())] == [beside]
    (elsewhere,) = regrade([path], GradeConfig(output=str(tmp_path / "new")))
    assert elsewhere.target == tmp_path / "new" / path.name and elsewhere.target.read_bytes() == right
    with pytest.raises(UserError, match="overwrite=true does that"):
        list(regrade([path], GradeConfig(output=str(path.parent))))
    others = tmp_path / "others"
    for left in (path.name, "results.json"):
        others.mkdir(exist_ok=True)
        (others / left).write_text(json.dumps({path.stem: {}}))
        with pytest.raises(UserError, match=rf"others holds {path.name} already, or its figures; choose another"):
            list(regrade([path], GradeConfig(output=str(others))))
        assert [file.name for file in others.iterdir()] == [left]
        (others / left).unlink()
    assert [it.target for it in regrade([path], GradeConfig(overwrite=True))] == [path]
    assert path.read_bytes() == right


@pytest.mark.parametrize(
    ("content", "words", "message"),
    [
        (None, (), r"records\.jsonl: there is no such file"),
        ("", (), r"holds no response"),
        ("no json\n", (), r"line 1 is not readable as JSON"),
        ('{"problem": "p"}\n', (), r"line 1 cannot be graded again: it has no prompt, answer, response"),
        ("{}\n", ("output=x", "overwrite=true"), r"output=x has no effect with overwrite=true"),
        ("{}\n", ("workers=0",), r"workers=0 must be at least 1"),
    ],
)
def test_a_file_that_cannot_be_regraded_is_one_clear_error(
    content: str | None, words: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "records.jsonl"
    if content is not None:
        path.write_text(content)
    assert re.search(message, error_of(capsys, "grade", "regrade=true", path, *words))


@pytest.mark.parametrize(("name", "options"), [*((name, {}) for name in OWN), ("arithmetic", {"digits": 1})])
def test_the_shipped_tasks_are_graded_again(name: str, options: dict[str, int]) -> None:
    config = TaskConfig(name, options=options, problems=9, wrong_reward=-1.0)
    task = demonstrated_task(config)
    problem = task.held_out[0]
    record = {
        **{"problem": problem.id, "prompt": problem.prompt, "answer": problem.answer, "final_answer": None},
        **{"response": task.demonstration(problem, random.Random(0)), "correct": 0.0, "reward": 0.0},
        **{"outcome": "graded", "task": grading_keys(config), "data": to_json(problem.data)},
    }
    (new,) = regraded([record])
    assert (new["correct"], new["reward"], new["final_answer"]) == (1.0, 1.0, problem.answer)
    assert regraded([{**record, "response": "="}])[0]["reward"] == -1


@pytest.mark.parametrize("name", ["${instruction}", "${oc.decode:'subprocess:Popen'}", "${oc.env:HOME}"])
def test_nothing_that_a_record_says_is_filled_in(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = tmp_path / "made"
    options = {"args": ["touch", str(made)]}
    task = {"name": name, "instruction": "subprocess:Popen", "options": options, "wrong_reward": 0.0}
    record = {"problem": "1+1", "prompt": "1+1=", "answer": "2", "response": "=2", "correct": 1.0, "reward": 1.0}
    write_json_lines(tmp_path / "kept.jsonl", [{**record, "outcome": "graded", "data": {}, "task": task}])
    assert "${...} has no meaning there" in error_of(capsys, "grade", "regrade=true", tmp_path / "kept.jsonl")
    assert not made.exists()


STEERING = "\x1b[31mred\x07\u202eturned"


def test_the_first_changed_grades_are_shown_and_steer_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = {"prompt": "1+1=", "answer": STEERING, "response": f"={STEERING}", "final_answer": None, "correct": 1.0}
    told |= {"reward": 1.0, "outcome": "graded", "task": grading_keys(TaskConfig("sums")), "data": {}}
    write_json_lines(tmp_path / "kept.jsonl", [{**told, "problem": f"{n}-{STEERING}"} for n in range(CHANGES + 1)])
    assert main(["grade", "regrade=true", str(tmp_path / "kept.jsonl")]) == 0
    said = capsys.readouterr().out
    assert f"{CHANGES + 1} of {CHANGES + 1} grades changed" in said
    assert len(re.findall("right +wrong", said)) == CHANGES and f"{CHANGES}-" not in said
    assert not {"\x1b", "\x07", "\u202e"} & set(said)


def test_what_was_a_command_or_a_key_says_what_does_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert "rlzoo regrade was removed; rlzoo grade regrade=true" in error_of(capsys, "regrade", "kept.jsonl")
    assert "examples/judge.py" in error_of(capsys, "grade", "regrade=true", "a.jsonl", "verifier.url=http://x")
    assert "rlzoo grade grades what you write" in error_of(capsys, "task", "by_hand=true")


def test_a_judge_is_asked_about_what_the_rules_refuse_and_can_only_raise_the_score(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = {"problem": "p", "prompt": "1+1?", "answer": "2", "correct": 0.0, "reward": 0.0, "outcome": "graded"}
    told |= {"task": grading_keys(TaskConfig("any.parquet")), "data": {"data_source": ""}, "final_answer": None}
    responses = [r"\boxed{2}", r"\boxed{\frac{4}{2}}", r"\boxed{a pair}", r"\boxed{3}", ""]
    kept = regraded([{**told, "response": response} for response in responses])
    assert [record["correct"] for record in kept] == [1, 1, 0, 0, 0]
    write_json_lines(tmp_path / "kept.jsonl", kept)
    with judging(lambda prompt: "A" if r"\boxed{a pair}" in prompt else "B") as sent:
        assert main(["grade", "regrade=true", f"reward={JUDGE}:rules_or_judge", str(tmp_path / "kept.jsonl")]) == 0
    asked = [body["messages"][0]["content"] for body in sent]
    after = read_json_lines(tmp_path / "kept.regraded.jsonl")
    assert [record["correct"] for record in after] == [1, 1, 1, 0, 0]
    assert len(asked) == 2, "what the rules accept is not asked, nor what is empty"
    assert all("Standard answer:\n2\n" in prompt and "Question:\n1+1?" in prompt for prompt in asked)
    assert "1 of 5 grades changed, 1 up and 0 down" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("name", thinned(["countdown", "chain_sum", "arc_agi", "basic_arithmetic"], 4))
def test_the_problems_of_reasoning_gym_come_back_from_json_as_they_were(name: str) -> None:
    config = TaskConfig(f"reasoning_gym:{name}", wrong_reward=-1.0)
    problem = load_task(config, held_out_problems=1).held_out[0]
    assert from_json(json.loads(json.dumps(to_json(problem.data)))) == problem.data
    record = {
        **{"problem": problem.id, "prompt": problem.prompt, "answer": problem.answer, "final_answer": None},
        **{"response": f"<answer>{problem.answer}</answer>", "correct": 0.0, "reward": 0.0, "outcome": "graded"},
        **{"task": grading_keys(config), "data": to_json(problem.data)},
    }
    (new,) = regraded([record])
    assert (new["correct"], new["reward"]) == (1.0, 1.0)
    assert regraded([{**record, "response": "no"}])[0]["reward"] < 0
