"""The kernel holds a process that grades, whatever an answer has it do; where it cannot, that is said at the start."""

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rlzoo.commands import main
from rlzoo.config import TaskConfig
from rlzoo.files import read_json_lines, write_json_lines
from rlzoo.tasks import boundary, grading, load_task
from rlzoo.tasks.base import Grade, Grader, Problem
from rlzoo.tasks.dataset import DatasetGrader, problem_to_grade
from rlzoo.tasks.grading import Graded, GraderPool
from rlzoo.tasks.reasoning_gym import DatasetScorer, GymDataset
from rlzoo.tasks.regrading import grading_task
from tests.thinned import thinned

WRITE = "__import__('sqlite3').connect('{marker}').execute('create table t (a int)')"
START = (
    "__import__('builtins').exec('import _posixsubprocess, os; r, w = os.pipe(); _posixsubprocess.fork_exec("
    '[b"/usr/bin/touch", b"{marker}"], [b"/usr/bin/touch"], True, (), None, None, -1, -1, -1, -1, -1, -1, r, w, '
    "False, False, -1, None, None, None, -1, None, False)')"
)
LATER = "__import__('time').sleep(0.3)"
PROBLEMS: dict[str, dict[str, Any]] = {
    "countdown": {"numbers": [1, 2], "target": 3},
    "puzzle24": {"numbers": [1, 2, 3, 4]},
    "simple_integration": {"integrand": "x", "variable": "x"},
}


@pytest.mark.slow
@pytest.mark.parametrize("deed", [WRITE, START])
@pytest.mark.parametrize("dataset", thinned(list(PROBLEMS), 3))
def test_an_answer_that_is_evaluated_writes_no_file_and_starts_no_process(
    dataset: str, deed: str, tmp_path: Path
) -> None:
    marker = tmp_path / "marker"
    entry = {"question": "?", "answer": "3", "metadata": PROBLEMS[dataset]}
    problem = Problem("p", "?", "3", {"entry": entry})
    answer = f"{deed.format(marker=marker)}"
    with GraderPool(DatasetScorer(GymDataset(dataset, "{}"))) as pool:
        pool.grade([problem] * 2, [f"<answer>{answer}</answer>", f"<answer>{LATER}</answer>"])
    assert not marker.exists()


DEEDS = {
    "open": "open(new, 'w')",
    "native open": "done(libc.creat(new.encode(), 0o600) >= 0)",
    "folder": "done(libc.mkdir(new.encode(), 0o700) == 0)",
    "database": "sqlite3.connect(new).execute('create table t (a int)')",
    "rights": "done(libc.chmod(kept.encode(), 0o711) == 0)",
    "times": "done(libc.utimes(kept.encode(), None) == 0)",
    "cut": "done(libc.truncate(kept.encode(), 0) == 0)",
    "remove": "done(libc.unlink(kept.encode()) == 0)",
    "rename": "done(libc.rename(kept.encode(), new.encode()) == 0)",
    "link": "done(libc.symlink(kept.encode(), new.encode()) == 0)",
    "connect": "socket.socket()",
    "local": "socket.socket(socket.AF_UNIX)",
    "fork": "os.fork() or os._exit(0)",
    "native fork": "done((libc.fork() or os._exit(0)) > 0)",
    "process": "subprocess.run(['true'])",
    "signal": "os.kill(os.getppid(), 0)",
}
ATTEMPTS = """
import ctypes, os, socket, sqlite3, subprocess, sys
from pathlib import Path
libc = ctypes.CDLL(None)
def done(well):
    if not well:
        raise OSError("no")
{enter}
for number, deed in enumerate({deeds!r}):
    new, kept = f"{folder}/new-{{number}}", f"{folder}/kept-{{number}}"
    try:
        exec(deed)
    except (OSError, sqlite3.OperationalError):
        print("refused")
    else:
        print("done")
"""
ENTER = "from rlzoo.tasks import boundary; boundary.enter()"


@pytest.mark.parametrize(("enter", "outcome"), [(ENTER, "refused"), ("", "done")])
def test_the_boundary_refuses_each_way_out_which_is_open_without_it(enter: str, outcome: str, tmp_path: Path) -> None:
    kept = [tmp_path / f"kept-{number}" for number in range(len(DEEDS))]
    for path in kept:
        path.write_text("as it was")
    code = ATTEMPTS.format(enter=enter, deeds=list(DEEDS.values()), folder=tmp_path)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert dict(zip(DEEDS, done.stdout.split(), strict=True)) == dict.fromkeys(DEEDS, outcome), done.stderr
    if enter:
        assert sorted(tmp_path.iterdir()) == sorted(kept) and {path.read_text() for path in kept} == {"as it was"}


INSIDE = """
import os, signal, sys, threading
from rlzoo.tasks import boundary
boundary.enter()
threads = [threading.Thread(target=print) for _ in range(3)]
[it.start() for it in threads], [it.join() for it in threads]
assert open("/etc/passwd").read() and os.listdir("/")
signal.signal(signal.SIGALRM, lambda *_: sys.exit(0))
signal.setitimer(signal.ITIMER_REAL, 0.05)
import numpy
assert numpy.ones((200, 200)) @ numpy.ones((200, 200)) is not None
while True:
    pass
"""


def test_reading_threads_alarms_and_libraries_work_inside() -> None:
    done = subprocess.run([sys.executable, "-c", INSIDE], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_our_graders_give_the_same_inside() -> None:
    problems = [problem_to_grade(gold, "", "", "p") for gold in ("1/2", r"\sqrt{2}", "[0, 1)")]
    responses = [r"\boxed{0.5}", r"\boxed{2^{1/2}}", r"\boxed{[0, 1]}"]
    with GraderPool(DatasetGrader(), timeout=20) as pool:
        assert [it.grade.correct for it in pool.grade(problems, responses)] == [1.0, 1.0, 0.0]
    task = grading_task({"name": "reasoning_gym:countdown"})
    (problem,) = load_task(TaskConfig("reasoning_gym:countdown"), held_out_problems=1).held_out
    with GraderPool(task.grader) as pool:
        assert pool.grade([problem], [f"<answer>{problem.answer}</answer>"])[0].grade.correct == 1


def test_to_enter_costs_milliseconds() -> None:
    timed = "boundary.prepare(); start = time.monotonic(); boundary.enter(); print(time.monotonic() - start)"
    code = f"import time; from rlzoo.tasks import boundary; {timed}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert float(done.stdout) < 0.02


def users_grader(problem: Problem, response: str) -> Grade:
    return Grade(1.0, 1.0)


@pytest.mark.parametrize(("grader", "says"), [(DatasetGrader(), 1), (users_grader, 0)])
def test_where_the_kernel_has_no_boundary_that_is_said_once(
    grader: Grader, says: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    grading._tell_of_no_boundary.cache_clear()
    monkeypatch.setattr(boundary, "missing_kernel_features", lambda: "its kernel has no Landlock")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            with GraderPool(grader):
                pass
    grading._tell_of_no_boundary.cache_clear()
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == says and all("its kernel has no Landlock" in text and "\n" not in text for text in said)


def test_where_the_kernel_has_no_boundary_a_command_that_grades_with_evaluated_answers_says_so_first(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = {"question": "?", "answer": "3", "metadata": PROBLEMS["countdown"]}
    told = {"problem": "p", "prompt": "?", "answer": "3", "data": {"entry": entry}, "outcome": "graded"}
    told |= {"response": "<answer>1+2</answer>", "correct": 0.0, "reward": 0.0}
    write_json_lines(tmp_path / "kept.jsonl", [{**told, "task": {"name": "reasoning_gym:countdown"}}])
    grade, before = GraderPool.grade, list[list[str]]()

    def watched(*arguments: Any) -> list[Graded]:
        before.append([record.getMessage() for record in caplog.records])
        return grade(*arguments)

    monkeypatch.setattr(GraderPool, "grade", watched)
    monkeypatch.setattr(boundary, "missing_kernel_features", lambda: "its kernel has no Landlock")
    grading._tell_of_no_boundary.cache_clear()
    with caplog.at_level(logging.WARNING):
        assert main(["regrade", str(tmp_path / "kept.jsonl")]) == 0
    grading._tell_of_no_boundary.cache_clear()
    assert len(before[0]) == 1 and "its kernel has no Landlock" in before[0][0]
    assert read_json_lines(tmp_path / "kept.regraded.jsonl")[0]["correct"] == 1
