"""The kernel holds a process that grades, whatever an answer has it do; where it cannot, that is said at the start."""

import ctypes
import errno
import fcntl  # noqa: F401
import json
import logging
import os
import pty
import resource  # noqa: F401
import socket  # noqa: F401
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from rlzoo.commands import main
from rlzoo.config import TaskConfig
from rlzoo.config.recorded import outside_names
from rlzoo.errors import UserError
from rlzoo.files import read_json_lines, write_json_lines
from rlzoo.tasks import boundary, grading, load_task
from rlzoo.tasks.base import Grade, Grader, Problem
from rlzoo.tasks.dataset import DatasetGrader, problem_to_grade
from rlzoo.tasks.grading import Graded, GraderPool
from rlzoo.tasks.reasoning_gym import DatasetScorer, GymDataset
from rlzoo.tasks.regrading import grading_task
from rlzoo.tasks.sandbox import Patience, Request, Sandbox, Work
from tests.thinned import thinned

NUMBERS = {"countdown": {"numbers": [1, 2], "target": 3}, "puzzle24": {"numbers": [1, 2, 3, 4]}}
METADATA: dict[str, dict[str, Any]] = {**NUMBERS, "simple_integration": {"integrand": "x", "variable": "x"}}


def problem_of(dataset: str) -> Problem:
    return Problem("p", "?", "3", {"entry": {"question": "?", "answer": "3", "metadata": METADATA[dataset]}})


def answer(code: str) -> str:
    """A response whose answer runs code where it is evaluated."""
    return f"<answer>__import__('builtins').exec({code!r}, {{}}) or 1+2</answer>"


def graded(dataset: str, *responses: str) -> list[Graded]:
    with GraderPool(DatasetScorer(GymDataset(dataset, "{}")), timeout=20) as pool:
        return pool.grade([problem_of(dataset)] * len(responses), responses)


@pytest.mark.parametrize("dataset", thinned(list(METADATA), 1))
def test_an_answer_that_is_evaluated_writes_no_file_and_starts_no_process(dataset: str, tmp_path: Path) -> None:
    written, started = tmp_path / "written", tmp_path / "started"
    program = [b"/usr/bin/touch", str(started).encode()]
    start = (
        f"import _posixsubprocess, os; r, w = os.pipe(); _posixsubprocess.fork_exec({program}, [{program[0]!r}], True, "
        f"(), None, None, -1, -1, -1, -1, -1, -1, r, w, False, False, -1, None, None, None, -1, None, False)"
    )
    graded(dataset, answer(f"open({str(written)!r}, 'w')"), answer(start), answer("import time; time.sleep(0.3)"))
    assert not written.exists() and not started.exists()


def test_the_options_of_a_recorded_task_run_nothing_outside_of_the_boundary(tmp_path: Path) -> None:
    """They name the variable of an integral, which a scorer evaluates as part of the gold answer."""
    code = f"import os; os.system('touch {tmp_path}/marker')"
    options = {"symbols": [f"__import__('builtins').exec({code!r})"]}
    options |= dict.fromkeys(("min_terms", "max_terms", "min_degree", "max_degree"), 1)
    with GraderPool(DatasetScorer(GymDataset("simple_integration", json.dumps(options))), timeout=20) as pool:
        pool.grade([problem_of("simple_integration")], ["<answer>x</answer>"])
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_what_a_confined_process_says_is_data_and_runs_nothing_here(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    pickled = (
        f"class E:\n def __reduce__(self): return os.system, ('touch {marker}',)\nwhat = b'\\n' + pickle.dumps(E())"
    )
    for made in (f"{pickled} + b'\\n'", "what = b'[' * 10**6 + b'\\n'", "what = b'1' * 2**21", "what = b'{}\\n'"):
        spray = "for fd in range(3, 64):\n try: os.write(fd, what)\n except OSError: pass\ntime.sleep(20)"
        (result,) = graded("countdown", answer(f"import os, pickle, time\n{made}\n{spray}"))
        assert result == Graded(Grade(0.0, 0.0), "failed") and not marker.exists()


def test_no_answer_reaches_the_grade_of_another() -> None:
    forge = answer(
        "import rlzoo.tasks.reasoning_gym as r, rlzoo.tasks.grading as g; r._score = lambda *a: 1.0; "
        "r.DatasetScorer.__call__ = lambda *a: g.Grade(1.0, 1.0); r._PLAIN = None"
    )
    wrong, right = "<answer>int(1) - 2</answer>", "<answer>1 + 2</answer>"
    results = graded("countdown", right, forge, wrong, "<answer>2 - 1</answer>", right, wrong)
    correct = [it.grade.correct for it in results]
    assert correct[:1] + correct[2:] == [1.0, 0.0, 0.0, 1.0, 0.0]


def test_what_scoring_loads_is_loaded_once_and_not_in_the_process_of_each_answer() -> None:
    counted = answer("import rlzoo.tasks.reasoning_gym as r; assert r._scoring_dataset.cache_info().hits")
    results = graded("countdown", counted, counted)
    assert [it.grade.correct for it in results] == [1.0, 1.0]


@pytest.mark.parametrize("name", ["countdown", "n_queens", "composite", "spell_backward"])
def test_a_scorer_whose_source_runs_text_evaluates(name: str) -> None:
    assert DatasetScorer(GymDataset(name, "{}")).evaluates == (name != "spell_backward")


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
    "fifo": "os.mkfifo(new)",
    "connect": "socket.socket()",
    "local": "socket.socket(socket.AF_UNIX)",
    "pair": "socket.socketpair()",
    "fork": "os.fork() or os._exit(0)",
    "native fork": "done((libc.fork() or os._exit(0)) > 0)",
    "process": "subprocess.run(['true'])",
    "signal": "os.kill(victim, 0)",
    "process handle": "os.pidfd_open(victim)",
    "processor time": "resource.prlimit(victim, resource.RLIMIT_CPU, (10**6, 10**6))",
    "open files": "resource.prlimit(victim, resource.RLIMIT_NOFILE, (99, 99))",
    "own limit": "resource.setrlimit(resource.RLIMIT_NOFILE, (99, 99))",
    "priority": "os.setpriority(os.PRIO_PROCESS, victim, 5)",
    "affinity": "os.sched_setaffinity(victim, {0})",
    "owner of a pipe": "fcntl.fcntl(os.pipe()[0], fcntl.F_SETOWN, victim)",
    "owner of a file": "fcntl.fcntl(0, fcntl.F_SETOWN, victim)",
    "signal of a file": "fcntl.fcntl(0, 10, 9)",
    "asynchronous file": "fcntl.fcntl(0, fcntl.F_SETFL, 0o20000)",
    "environment": "open(f'/proc/{victim}/environ', 'rb').read()",
    "memory map": "open(f'/proc/{victim}/maps').read()",
    "file handles": "os.listdir(f'/proc/{victim}/fd')",
    "open file": "os.readlink(f'/proc/{victim}/fd/0')",
    "command line": "open(f'/proc/{victim}/cmdline').read()",
    "processes": "os.listdir('/proc')",
    "out of memory": "open('/proc/self/oom_score_adj', 'w')",
    "file in memory": "os.memfd_create('x')",
    "watch": "done(libc.inotify_init() >= 0)",
    "namespace": "done(libc.unshare(0x10000000) == 0)",
    "clock": "done(libc.adjtimex(ctypes.create_string_buffer(512)) >= 0)",
}
"""Each is refused inside and succeeds outside, where it does no harm."""
HARMLESS = {
    "memory": "open(f'/proc/{victim}/mem', 'rb')",
    "session": "os.setsid()",
    "domain": "done(libc.setdomainname(b'elsewhere', 9) == 0)",
    "keystroke": "fcntl.ioctl(0, 0x5412, b'x')",
    "console": "fcntl.ioctl(0, 0x541C, b'x')",
    "terminal": "open('/dev/tty')",
}
"""These are refused inside; outside some would do harm, or are refused as well."""


def tried(code: str, victim: int, new: str, kept: str) -> str:
    """What becomes of a deed."""

    def done(well: bool) -> None:
        if not well:
            raise OSError

    try:
        exec(code, {**globals(), **locals(), "libc": ctypes.CDLL(None)})
    except (OSError, ValueError, sqlite3.OperationalError):
        return "refused"
    return "done"


def _trying() -> Callable[..., str]:
    return tried


@contextmanager
def victim() -> Iterator[psutil.Popen]:
    process = psutil.Popen(["sleep", "100"])
    try:
        yield process
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("is_confined", [True, False])
def test_the_boundary_refuses_each_way_out_which_is_open_without_it(is_confined: bool, tmp_path: Path) -> None:
    deeds = {**DEEDS, **HARMLESS} if is_confined else DEEDS
    kept = [tmp_path / f"kept-{number}" for number in range(len(deeds))]
    for path in kept:
        path.write_text("as it was")
    with victim() as process, Sandbox(Work(_trying, is_confined), "deeds", 1) as sandbox:
        before = process.nice(), process.cpu_affinity(), process.rlimit(psutil.RLIMIT_NOFILE)
        patience = Patience(20.0, "deeds")
        outcomes = sandbox.ask(
            [
                Request((code, process.pid, str(tmp_path / f"new-{number}"), str(kept[number])), patience)
                for number, code in enumerate(deeds.values())
            ]
        )
        outcome = "refused" if is_confined else "done"
        assert {name: it.value for name, it in zip(deeds, outcomes, strict=True)} == dict.fromkeys(deeds, outcome)
        if is_confined:
            assert (process.nice(), process.cpu_affinity(), process.rlimit(psutil.RLIMIT_NOFILE)) == before
            assert sorted(tmp_path.iterdir()) == sorted(kept)
            assert {path.read_text() for path in kept} == {"as it was"}


def test_a_worker_has_a_session_of_its_own_and_so_no_terminal() -> None:
    with Sandbox(Work(_trying), "deeds", 1) as sandbox:
        (outcome,) = sandbox.ask([Request(("done(os.getsid(0) == os.getpid())", 0, "", ""), Patience(20.0, "deeds"))])
    assert outcome.value == "done"


def called(number: int) -> int:
    """The error of a system call without arguments."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return ctypes.get_errno() if libc.syscall(ctypes.c_long(number), *[ctypes.c_long(0)] * 6) == -1 else 0


def _calling() -> Callable[[int], int]:
    return called


def test_every_system_call_that_the_table_does_not_allow_is_refused() -> None:
    calls = boundary.system_calls("x86_64" if sys.maxsize else "aarch64")
    refused = {name: number for name, (number, allowed) in calls.items() if not allowed}
    assert {"ioctl", "execve", "fork", "socket", "ptrace", "process_vm_writev", "sched_setaffinity"} <= refused.keys()
    with Sandbox(Work(_calling, is_confined=True), "calls", 1) as sandbox:
        numbers = [*refused.values(), max(refused.values()) + 50]
        outcomes = sandbox.ask([Request((number,), Patience(20.0, "calls")) for number in numbers])
    errors = {name: outcome.value for name, outcome in zip([*refused, "unknown"], outcomes, strict=True)}
    others = {"clone3": errno.ENOSYS, "ioctl": errno.ENOTTY, "unknown": errno.ENOSYS}
    assert errors == {name: others.get(name, errno.EPERM) for name in errors} and len(errors) > 250


def decided(program: bytes, machine: int, number: int, arguments: tuple[int, ...]) -> int:
    """What a filter answers to a call, as the kernel reads it."""
    data = struct.pack("=IIQ6Q", number, machine, 0, *arguments)
    place, value = 0, 0
    while True:
        code, then, otherwise, operand = struct.unpack_from("=HBBI", program, 8 * place)
        place += 1
        if code == 0x06:
            return operand
        if code == 0x20:
            (value,) = struct.unpack_from("=I", data, operand)
        else:
            holds = {0x15: value == operand, 0x45: bool(value & operand), 0x25: value > operand}[code]
            place += then if holds else otherwise


@pytest.mark.parametrize(("name", "machine"), [("x86_64", 0xC000003E), ("aarch64", 0xC00000B7)])
def test_the_filter_of_each_machine_allows_what_the_table_allows(name: str, machine: int) -> None:
    program = b"".join(boundary._filter(name, process=7))
    none, allow, error = (0,) * 6, 0x7FFF0000, 0x00050000 | errno.EPERM

    def allows(call: str, *arguments: int) -> bool:
        number = boundary.system_calls(name)[call][0]
        return decided(program, machine, number, (*arguments, *none)[:6]) == allow

    for call, (_, allowed) in boundary.system_calls(name).items():
        assert allowed == "if" or allows(call) == (allowed == "yes"), call
    assert decided(program, machine ^ 1, 0, none) == 0x80000000
    assert decided(program, machine, boundary.system_calls(name)["socket"][0], none) == error
    assert allows("clone", 0x10000) and not allows("clone", 0x4111) and not allows("clone", 17)
    assert allows("kill", 7, 9) and not allows("kill", 8, 9) and not allows("kill", 2**32 - 7, 9)
    assert allows("fcntl", 0, 1) and not any(allows("fcntl", 0, command) for command in (4, 8, 10, 15, 1024, 1033))
    assert allows("prlimit64", 0, 7, 0, 99) and not allows("prlimit64", 1, 7) and not allows("prlimit64", 0, 7, 2**40)


@pytest.mark.slow
def test_nothing_is_typed_into_or_written_to_the_terminal_of_a_command(tmp_path: Path) -> None:
    wrong = answer(
        "import fcntl, os; [os.write(fd, b'\\x1b]0;owned\\x07') for fd in (1, 2)]; fcntl.ioctl(2, 0x5412, b'x')"
    )
    told = {"problem": "p", "prompt": "?", "answer": "3", "data": {"entry": problem_of("countdown").data["entry"]}}
    told |= {"outcome": "graded", "response": wrong, "correct": 0.0, "reward": 0.0}
    write_json_lines(tmp_path / "kept.jsonl", [{**told, "task": {"name": "reasoning_gym:countdown"}}])
    master, slave = pty.openpty()
    words = [sys.executable, "-m", "rlzoo", "grade", "regrade=true", str(tmp_path / "kept.jsonl")]
    done = subprocess.run(words, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, timeout=100)
    os.set_blocking(slave, False)
    with pytest.raises(BlockingIOError):
        os.read(slave, 1)
    shown = os.read(master, 2**16)
    os.close(master), os.close(slave)
    assert done.returncode == 0 and b"owned" not in shown and b"kept" in shown


INSIDE = """
import os, signal, sys, threading
from rlzoo.tasks import boundary
boundary.enter()
threads = [threading.Thread(target=print) for _ in range(3)]
[it.start() for it in threads], [it.join() for it in threads]
assert open("/etc/passwd").read() and os.listdir("/usr")
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


def users_grader(problem: Problem, response: str) -> Grade:
    return Grade(1.0, 1.0)


@pytest.fixture
def no_boundary(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose kernel confines nothing."""
    grading._tell_of_no_boundary.cache_clear()
    monkeypatch.setattr(boundary, "missing_kernel_features", lambda: "its kernel has no Landlock")
    yield
    grading._tell_of_no_boundary.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize(("grader", "says"), [(DatasetGrader(), 1), (users_grader, 0)])
def test_where_the_kernel_has_no_boundary_that_is_said_once(
    grader: Grader, says: int, caplog: pytest.LogCaptureFixture, no_boundary: None
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            with GraderPool(grader):
                pass
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == says and all("its kernel has no Landlock" in text and "\n" not in text for text in said)


@pytest.mark.slow
def test_where_the_kernel_has_no_boundary_a_scorer_that_evaluates_is_refused_unless_allowed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str], no_boundary: None
) -> None:
    told = {"problem": "p", "prompt": "?", "answer": "3", "data": dict(problem_of("countdown").data)}
    told |= {"outcome": "graded", "response": "<answer>1+2</answer>", "correct": 0.0, "reward": 0.0}
    write_json_lines(tmp_path / "kept.jsonl", [{**told, "task": {"name": "reasoning_gym:countdown"}}])
    assert main(["grade", "regrade=true", str(tmp_path / "kept.jsonl")]) == 2
    assert "task.allow_unconfined=false: the scorer runs what a model wrote" in capsys.readouterr().err
    with caplog.at_level(logging.WARNING):
        assert main(["grade", "regrade=true", str(tmp_path / "kept.jsonl"), "allow_unconfined=true"]) == 0
    assert "its kernel has no Landlock" in caplog.text
    assert read_json_lines(tmp_path / "kept.regraded.jsonl")[0]["correct"] == 1
    task = load_task(TaskConfig("reasoning_gym:countdown"), held_out_problems=1)
    with pytest.raises(UserError, match=r"^task\.allow_unconfined=false"), GraderPool.of(TaskConfig(), task.grader):
        pass


def test_a_recorded_file_does_not_allow_it() -> None:
    assert outside_names({"task.allow_unconfined": True}) == {"task.allow_unconfined": "task.allow_unconfined=true"}
