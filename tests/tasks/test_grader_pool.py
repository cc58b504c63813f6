import importlib
import itertools
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
import pytest

from rlzoo.errors import Fault, UserError
from rlzoo.tasks import sandbox
from rlzoo.tasks.arithmetic import Arithmetic
from rlzoo.tasks.base import ExactGrader, Grade, Problem
from rlzoo.tasks.calculator import Calculator
from rlzoo.tasks.dataset import DatasetGrader
from rlzoo.tasks.grading import GraderPool
from rlzoo.tasks.knights import Knights
from rlzoo.tasks.sandbox import Patience, Request, Sandbox, Work
from rlzoo.tasks.sums import Sums
from rlzoo.tasks.tools import ToolPool

PROBLEM = Problem("p", "?", "7", {"data_source": ""})
WORST = Grade(-1.0, 0.0)


class Unfamiliar(Exception):
    """An exception that pickle cannot bring back."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__("both are needed")


def grader(problem: Problem, response: str) -> Grade:
    """Does what the response says."""
    word, _, argument = response.partition(" ")
    if word == "":
        return WORST
    if word == "sleep":
        time.sleep(float(argument))
    if word == "calculate":
        _ = 10**10**10
    if word == "exit":
        sys.exit(3)
    if word == "crash":
        os._exit(3)
    if word == "refuse":
        raise UserError("of no use")
    if word == "raise":
        raise Unfamiliar(1, 2)
    if word == "allocate":
        _ = bytearray(int(argument))
    if word == "write":
        Path(argument).write_text("evil")
    if word == "make":
        os.mkdir(argument)
    if word == "run":
        subprocess.run(["touch", argument])
    if word == "connect":
        socket.socket()
    if word == "modules":
        for module in ("arithmetic", "reasoning_gym", "dataset"):
            importlib.import_module(f"rlzoo.tasks.{module}")
        DatasetGrader()(problem, r"\boxed{7}")
        return Grade(float("torch" in sys.modules), 1.0)
    return Grade(float(len(response)), 1.0)


def workers_of(pool: GraderPool | ToolPool) -> list[psutil.Process]:
    """The processes that are forked from the pool's template."""
    return psutil.Process(pool._template._process.pid).children()


@pytest.mark.smoke
@pytest.mark.slow
def test_grades_come_in_the_order_of_the_responses() -> None:
    responses = ["sleep 0.2", *("x" * n for n in range(1, 50))]
    with GraderPool(grader, workers=2) as pool:
        graded = pool.grade([PROBLEM] * 50, responses)
    assert [g.grade.reward for g in graded] == [len(response) for response in responses]
    assert {g.outcome for g in graded} == {"graded"}


@pytest.mark.smoke
@pytest.mark.slow
@pytest.mark.parametrize("endless", ["sleep 1000", "calculate"])
def test_a_time_out_is_counted_and_costs_its_own_time_only(endless: str) -> None:
    with GraderPool(grader, workers=1, timeout=1.0) as pool:
        pool.grade([PROBLEM], ["warm"])
        start = time.monotonic()
        graded = pool.grade([PROBLEM] * 5, ["a", endless, "bb", "sleep 0.6", "sleep 0.7"])
        elapsed = time.monotonic() - start
    assert [g.outcome for g in graded] == ["graded", "timed_out", "graded", "graded", "graded"]
    assert graded[1].grade == WORST
    assert elapsed < 10.0


@pytest.mark.slow
def test_a_jump_of_the_clock_makes_no_grade_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    hours = itertools.count(1)
    monkeypatch.setattr(time, "time", lambda: 3600.0 * next(hours))
    with GraderPool(grader, workers=1) as pool:
        assert [it.outcome for it in pool.grade([PROBLEM] * 2, ["sleep 0.2", "x"])] == ["graded", "graded"]


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["crash", "exit", "raise", "allocate 6000000000"])
def test_a_failure_is_counted_and_leaves_the_others_alone(fault: str) -> None:
    with GraderPool(grader, workers=1) as pool:
        graded = pool.grade([PROBLEM] * 3, ["a", fault, "bb"])
        again = pool.grade([PROBLEM], ["ccc"])
    assert [g.outcome for g in graded] == ["graded", "failed", "graded"]
    assert [g.grade.reward for g in [*graded, *again]] == [1.0, WORST.reward, 2.0, 3.0]


@pytest.mark.parametrize("deed", ["write", "make", "run", "connect"])
def test_a_grader_has_no_right_to_act_on_the_world(deed: str, tmp_path: Path) -> None:
    with GraderPool(grader) as pool:
        (graded,) = pool.grade([PROBLEM], [f"{deed} {tmp_path / 'evil'}"])
    assert graded.outcome == "failed"
    assert not (tmp_path / "evil").exists()


@pytest.mark.slow
def test_the_pool_mends_itself_when_its_workers_are_killed_from_outside() -> None:
    with GraderPool(grader, workers=2) as pool:
        pool.grade([PROBLEM] * 4, ["sleep 0.2"] * 4)
        for worker in workers_of(pool):
            worker.kill()
        graded = pool.grade([PROBLEM] * 4, ["a"] * 4)
    assert [g.outcome for g in graded] == ["graded"] * 4


@pytest.mark.slow
def test_a_worker_that_dies_with_nothing_to_do_costs_nothing() -> None:
    with GraderPool(grader, workers=2) as pool:
        pool.grade([PROBLEM] * 4, ["a"] * 4)
        workers_of(pool)[0].kill()
        time.sleep(0.5)
        graded = pool.grade([PROBLEM] * 4, ["a"] * 4)
    assert [(g.outcome, g.grade.reward) for g in graded] == [("graded", 1.0)] * 4


def test_workers_that_die_with_nothing_to_do_leave_the_others_as_they_are() -> None:
    with GraderPool(grader, workers=4) as pool:
        pool.grade([PROBLEM] * 4, ["sleep 0.3"] * 4)
        template, before = pool._template, workers_of(pool)
        for worker in before[1:]:
            worker.kill()
        time.sleep(0.3)
        graded = pool.grade([PROBLEM] * 4, ["sleep 0.3"] * 4)
        assert pool._template is template and before[0] in workers_of(pool)
        before[0].kill()
        every = [*before, *workers_of(pool)]
    assert [(g.outcome, g.grade.reward) for g in graded] == [("graded", 9.0)] * 4
    psutil.wait_procs(every, 5.0)
    assert not any(alive(worker.pid) for worker in every)


def sleeper() -> Callable[[float], None]:
    return time.sleep


@pytest.mark.parametrize("loading", [0.0, 8.0])
def test_an_interruption_ends_what_is_asked_and_begins_nothing_anew(
    loading: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sandbox, "_PATIENCE", 0.5)
    before = signal.signal(signal.SIGUSR1, interrupt)
    requests, start = [Request((9.0,), Patience(20.0, "a.key"))] * 3, time.monotonic()
    try:
        with Sandbox(Work(sleeper, prepare=partial(time.sleep, loading)), "this", 2) as asked:
            template = asked._template
            threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGUSR1)).start()
            with pytest.raises(KeyboardInterrupt):
                asked.ask(requests)
            assert asked._template is template
            with pytest.raises(Fault, match="the processes of this have been ended"):
                asked.ask(requests)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert time.monotonic() - start < 6.0


@pytest.mark.slow
def test_a_template_that_is_stopped_keeps_no_command_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_PATIENCE", 0.5)
    with GraderPool(grader, workers=2) as pool:
        pool.grade([PROBLEM] * 2, ["a"] * 2)
        template = psutil.Process(pool._template._process.pid)
        template.suspend()
        start = time.monotonic()
    assert time.monotonic() - start < 10.0
    assert not template.is_running()


@pytest.mark.slow
def test_a_template_that_a_busy_machine_keeps_waiting_is_not_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_PATIENCE", 0.2)
    with GraderPool(grader, workers=1) as pool:
        pool.grade([PROBLEM], ["a"])
        template = pool._template
        process = psutil.Process(template._process.pid)
        process.suspend()
        threading.Timer(2.0, process.resume).start()
        graded = pool.grade([PROBLEM] * 2, ["crash", "a"])
        assert pool._template is template
    assert [it.outcome for it in graded] == ["failed", "graded"]


def test_a_template_that_does_not_get_ready_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STALLED", "_PATIENCE"):
        monkeypatch.setattr(sandbox, name, 0.1)
    work = Work(sleeper, prepare=partial(time.sleep, 15.0))
    with Sandbox(work, "this", 1) as asked, pytest.raises(Fault, match=r"or take more than 0\.1 seconds to load"):
        asked.ask([Request((0.0,), Patience(1.0, "a.key"))])


@pytest.mark.slow
@pytest.mark.parametrize("killed", ["worker", "template"])
def test_a_response_whose_worker_is_killed_from_outside_is_graded_again(killed: str) -> None:
    with GraderPool(grader, workers=1) as pool:
        pool.grade([PROBLEM], ["a"])
        process = workers_of(pool)[0] if killed == "worker" else psutil.Process(pool._template._process.pid)
        killing = threading.Timer(0.3, process.kill)
        killing.start()
        graded = pool.grade([PROBLEM] * 2, ["sleep 0.8", "a"])
        killing.join()
    assert [(g.outcome, g.grade.reward) for g in graded] == [("graded", 9.0), ("graded", 1.0)]


def test_a_response_that_no_worker_takes_is_graded_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    with GraderPool(grader, workers=1) as pool:
        pool.grade([PROBLEM], ["a"])
        monkeypatch.setattr(sandbox, "STALLED", 0.5)
        workers_of(pool)[0].suspend()
        graded = pool.grade([PROBLEM] * 3, ["a"] * 3)
    assert [(g.outcome, g.grade.reward) for g in graded] == [("graded", 1.0)] * 3


def test_workers_leave_signals_that_ask_to_end_to_the_parent() -> None:
    with GraderPool(grader, workers=1) as pool:
        pool.grade([PROBLEM], ["a"])
        before = workers_of(pool)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            before[0].send_signal(number)
        time.sleep(0.3)
        graded = pool.grade([PROBLEM], ["a"])
        assert workers_of(pool) == before
    assert graded[0].outcome == "graded"


GROUP = """
import signal, sys
import test_grader_pool as t
if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    with t.GraderPool(t.grader, workers=2) as pool:
        for response in ("a", "sleep 1.0", "a"):
            print("now", flush=True)
            graded = pool.grade([t.PROBLEM] * 4, [response] * 4)
            print(*(g.grade.reward for g in graded), flush=True)
            sys.stdin.readline()
"""


@pytest.mark.smoke
@pytest.mark.slow
def test_what_is_sent_to_the_whole_group_makes_no_grade_wrong() -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    asked = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1)
    process = subprocess.Popen([sys.executable, "-c", GROUP], env=environment, start_new_session=True, **asked)
    assert process.stdin and process.stdout and process.stderr
    rewards = []
    for _ in range(3):  # before the first, amid the slow ones, and while nothing is graded
        assert process.stdout.readline() == "now\n"
        time.sleep(0.5)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            os.killpg(process.pid, number)
        rewards.append(process.stdout.readline().split())
        os.killpg(process.pid, signal.SIGTERM)
        time.sleep(0.3)
        process.stdin.write("\n")
    _, error = process.communicate(timeout=60)
    assert rewards == [["1.0"] * 4, ["9.0"] * 4, ["1.0"] * 4]
    assert (process.returncode, error) == (0, "")


@pytest.mark.slow
def test_workers_import_no_torch_though_the_parent_has() -> None:
    import torch  # noqa: F401

    with GraderPool(grader) as pool:
        (graded,) = pool.grade([PROBLEM], ["modules"])
    assert graded.outcome == "graded"
    assert graded.grade.reward == 0.0


ORPHANS = """
import time
import test_grader_pool as t
if __name__ == "__main__":
    with t.GraderPool(t.grader, workers=2, timeout=1.0) as pool:
        pool.grade([t.PROBLEM] * 2, ["sleep 0.2"] * 2)
        print(*(worker.pid for worker in t.workers_of(pool)), flush=True)
        pool.grade([t.PROBLEM] * 2, ["calculate", "a"])
        time.sleep(100)
"""


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.slow
def test_workers_do_not_outlive_a_parent_that_was_killed() -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    parent = subprocess.Popen([sys.executable, "-c", ORPHANS], stdout=subprocess.PIPE, text=True, env=environment)
    assert parent.stdout is not None
    workers = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(workers) == 2
    time.sleep(0.3)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 15
    while any(alive(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.1)
    survivors = [pid for pid in workers if alive(pid)]
    for pid in survivors:
        os.kill(pid, signal.SIGKILL)
    assert survivors == []


def test_256_small_gradings_share_one_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    with GraderPool(DatasetGrader()) as pool:
        forked, fork = list[object](), pool._forked
        monkeypatch.setattr(pool, "_forked", lambda: forked.append(fork()) or forked[-1])
        for _ in range(3):
            pool.grade([PROBLEM] * 256, ["The answer is 7."] * 256)
        assert len(forked) == 1


class Unstartable:
    """A grader that no other process can unpickle."""

    def __init__(self, home: int) -> None:
        if os.getpid() != home:
            raise ImportError("no such grader here")
        self.home = home

    def __reduce__(self) -> tuple[type["Unstartable"], tuple[int]]:
        return Unstartable, (self.home,)

    def __call__(self, problem: Problem, response: str) -> Grade:
        return WORST


@pytest.mark.slow
def test_a_grader_that_cannot_be_started_is_an_error_and_no_endless_loop() -> None:
    with GraderPool(Unstartable(os.getpid())) as pool, pytest.raises(Fault, match="cannot be started"):
        pool.grade([PROBLEM], ["a"])


@pytest.mark.slow
@pytest.mark.parametrize("length", [70, 71])
def test_a_folder_for_temporary_files_too_deep_for_sockets_is_an_error_and_any_other_does(length: int) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        deep = Path(folder) / ("x" * (length - len(folder) - 1))
        deep.mkdir()
        (Path(folder) / "answers.jsonl").write_text(json.dumps({"gold": "1", "response": r"\boxed{1}"}))
        words = [sys.executable, "-m", "rlzoo", "grade", f"{folder}/answers.jsonl", f"output={folder}/graded.jsonl"]
        done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "TMPDIR": str(deep)})
    assert done.returncode == (0 if length <= 70 else 2), done.stderr
    assert "Traceback" not in done.stderr
    assert ("TMPDIR=/tmp" in done.stderr) == (length > 70)


def fails_always(problem: Problem, response: str) -> Grade:
    raise Unfamiliar(1, 2)


def test_a_grader_that_fails_for_an_empty_response_is_one_clear_error() -> None:
    with (
        GraderPool(fails_always) as pool,
        pytest.raises(UserError, match=r"an empty response to p failed .*Unfamiliar"),
    ):
        pool.grade([PROBLEM], ["x"])


def test_a_grader_of_no_use_is_an_error_before_the_others_are_graded() -> None:
    start = time.monotonic()
    with GraderPool(grader, workers=2, timeout=60.0) as pool, pytest.raises(UserError, match=r"^of no use$"):
        pool.grade([PROBLEM] * 4, ["sleep 30", "refuse", "sleep 30", "sleep 30"])
    assert time.monotonic() - start < 20.0


@dataclass(frozen=True)
class Evaluating:
    """Cannot say of any response whether it is harmless."""

    evaluates = True

    def is_harmless(self, problem: Problem, response: str) -> bool:
        raise RecursionError

    def __call__(self, problem: Problem, response: str) -> Grade:
        return grader(problem, response)


def test_a_response_of_which_nobody_can_tell_what_it_does_has_a_process_of_its_own() -> None:
    with GraderPool(Evaluating()) as pool:
        assert [g.grade.reward for g in pool.grade([PROBLEM] * 2, ["a", "bb"])] == [1.0, 2.0]
        assert pool._waiting[None] == []


@dataclass(frozen=True)
class Instant:
    """Compares, and does nothing else."""

    instant = True

    def __call__(self, problem: Problem, response: str) -> Grade:
        return grader(problem, response)


def test_an_instant_grader_gives_the_same_grades_without_a_process() -> None:
    responses = ["x" * n for n in range(20)]
    with GraderPool(grader, workers=2) as pool:
        graded = pool.grade([PROBLEM] * 20, responses)
    before = multiprocessing.active_children()
    with GraderPool(Instant()) as pool:
        assert pool.grade([PROBLEM] * 20, responses) == graded
        assert multiprocessing.active_children() == before


def answered(problem: Problem, response: str) -> str:
    """A final answer of a user's."""
    return response


def test_the_graders_of_the_embedded_tasks_are_instant_and_no_class_that_is_made_of_them() -> None:
    class Derived(ExactGrader):
        pass

    for task in (Arithmetic(), Calculator(), Knights(), Sums()):
        assert GraderPool(task.grader)._is_instant
    assert not GraderPool(Derived(Sums.final_answer))._is_instant
    assert not GraderPool(ExactGrader(answered))._is_instant


def test_a_worker_that_a_response_took_over_neither_abstains_nor_writes_to_the_terminal(
    caplog: pytest.LogCaptureFixture,
) -> None:
    forged = [1, 1, [], False, ["\x1b[2Jwrites a file"]]
    assert GraderPool(DatasetGrader())._read(forged, PROBLEM).is_scored and not caplog.text
    assert GraderPool(grader)._read(forged, PROBLEM).is_scored
    assert "writes a file" in caplog.text and "unconfined_reward" not in caplog.text
