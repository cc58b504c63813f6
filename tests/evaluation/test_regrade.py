"""Kept responses are graded again from their records alone, and never written over unless that is asked for."""

import io
import json
import random
import re
from pathlib import Path

import pytest
from rich.console import Console

from rlzoo.commands import main
from rlzoo.config import RegradeConfig, TaskConfig
from rlzoo.errors import UserError
from rlzoo.evaluation.evaluate_target import evaluate_target
from rlzoo.evaluation.kept import read_results
from rlzoo.evaluation.regrade import regrade, regraded
from rlzoo.evaluation.target import read_target
from rlzoo.files import read_json_lines, write_json_lines
from rlzoo.report.terminal import Terminal
from rlzoo.tasks import OWN, demonstrated_task, load_task
from rlzoo.tasks.regrading import from_json, grading_keys, to_json
from tests.conftest import error_of
from tests.thinned import thinned


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
    (beside,) = regrade([path], RegradeConfig(), Terminal(console))
    shown = console.export_text()
    assert f"1 of {len(records)} grades changed" in shown and records[0]["problem"] in shown
    assert beside.read_bytes() == right and read_json_lines(path) == records
    again = read_results(beside.parent)[beside.stem]
    assert again.pop("regraded_with") and again == summary
    assert regrade([path, beside], RegradeConfig(), Terminal(console)) == [beside]
    (elsewhere,) = regrade([path], RegradeConfig(output=str(tmp_path / "new")), Terminal(console))
    assert elsewhere == tmp_path / "new" / path.name and elsewhere.read_bytes() == right
    with pytest.raises(UserError, match="overwrite=true does that"):
        regrade([path], RegradeConfig(output=str(path.parent)), Terminal(console))
    assert regrade([path], RegradeConfig(overwrite=True), Terminal(console)) == [path]
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
    assert re.search(message, error_of(capsys, "regrade", path, *words))


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
    assert "${...} has no meaning there" in error_of(capsys, "regrade", tmp_path / "kept.jsonl")
    assert not made.exists()


STEERING = "\x1b[31mred\x07\u202eturned"


@pytest.mark.parametrize("show", [0, 2, 10])
def test_so_many_changed_grades_are_shown_and_steer_no_terminal(
    show: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = {"prompt": "1+1=", "answer": STEERING, "response": f"={STEERING}", "final_answer": None, "correct": 1.0}
    told |= {"reward": 1.0, "outcome": "graded", "task": grading_keys(TaskConfig("sums")), "data": {}}
    write_json_lines(tmp_path / "kept.jsonl", [{**told, "problem": f"{n}-{STEERING}"} for n in range(3)])
    assert main(["regrade", str(tmp_path / "kept.jsonl"), f"show={show}"]) == 0
    said = capsys.readouterr().out
    assert "3 of 3 grades changed" in said and len(re.findall("right +wrong", said)) == min(show, 3)
    assert [f"{n}-\\u001b" in said for n in range(3)] == [n < show for n in range(3)]
    assert not {"\x1b", "\x07", "\u202e"} & set(said)


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
