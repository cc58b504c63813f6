"""Runs forked from one process that has imported what training needs, which takes a third of a short run's time.

A run begins as `python -m rlzoo train ...` does, with the modules already there: the template has calculated nothing,
so that results are those of a process of its own, bit for bit. A run that crashes or is killed ends alone.
The template hears no signal that asks to end: its runs end with it, and each has its step to finish.

`python -m rlzoo.comparing.forked_runs FD` is the template; it talks to its parent by the socket FD, a JSON object in
each message. The parent asks for `{"job", "words", "log", "folder"}`, with a lock that the run holds
too, or for `{"job", "signal"}`; the template answers with `{"job", "status"}` when a run has ended.
"""

import ctypes
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from rlzoo.files import open_to_append
from rlzoo.signals import ENDING, held_back

IMPORTED = (
    "rlzoo.commands",
    "rlzoo.report.terminal",
    "rlzoo.report.run_files",
    "rlzoo.training.run",
    "rlzoo.rollout.transformers_engine",
    "transformers.models.qwen3.modeling_qwen3",
)
"""What a run of the default engine and the shipped models imports."""
LOST = -128
"""The status of a run whose worker is gone, which no signal has."""
LARGEST = 2**17
"""Bytes of a message."""
_SECONDS_TO_DIE = 10.0
_SET_PARENT_DEATH_SIGNAL = 1
_prctl = getattr(ctypes.CDLL(None), "prctl", None)


def end_with_parent() -> None:
    """Has Linux end this process when its parent is gone, however that ended; elsewhere, it works on to its end."""
    if sys.platform == "linux" and _prctl is not None:
        _prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)  # SIGTERM would leave it its step, and its folder taken


class Template:
    """The parent's side: starts runs in the template, and learns how they ended."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, held_back():  # a scheduler signals every process; the runs hear it, and save their step
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "rlzoo.comparing.forked_runs", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=dict(environment),
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
        self.statuses: dict[int, int] = {}
        self.jobs = 0

    @property
    def is_alive(self) -> bool:
        """Whether it can start further runs."""
        return self.process.poll() is None

    def start(self, words: Sequence[str], log: Path, lock: IO[str]) -> "ForkedRun":
        """Starts a run with these words, which adds what it prints to `log`."""
        log.parent.mkdir(exist_ok=True)
        self.jobs += 1
        asked = {"job": self.jobs, "words": [*words], "log": str(log), "folder": os.getcwd()}
        with suppress(ConnectionError):  # of a template that has just died, which the run's status says
            socket.send_fds(self.socket, [json.dumps(asked).encode()], [lock.fileno()])
        return ForkedRun(self, self.jobs)

    def signal(self, job: int, number: int) -> None:
        """Sends a signal to a run."""
        with suppress(ConnectionError):
            self.socket.send(json.dumps({"job": job, "signal": number}).encode())

    def status(self, job: int, timeout: float = 0.0) -> int | None:
        """Returns a run's exit status: LOST if the template is gone, None if it still runs after `timeout` seconds."""
        while job not in self.statuses:
            if not select.select([self.socket], [], [], timeout)[0]:
                return None
            if not (message := _received(self.socket)):
                return LOST
            self.statuses[message["job"]] = message["status"]
        return self.statuses[job]

    def close(self) -> None:
        """Ends the template, and what it still trains."""
        self.socket.close()
        self.process.wait()


@dataclass(frozen=True)
class ForkedRun:
    """A run that the template has started."""

    template: Template
    number: int

    def poll(self) -> int | None:
        """None until it has ended, then its exit status."""
        return self.template.status(self.number)

    def cancel(self) -> None:
        """Asks it to end."""
        self.template.signal(self.number, signal.SIGTERM)

    def kill(self) -> None:
        """Makes it end."""
        self.template.signal(self.number, signal.SIGKILL)
        self.template.status(self.number, _SECONDS_TO_DIE)


# ---- the template ----------------------------------------------------------------------------------------------------


def serve(parent: socket.socket) -> None:
    """Forks runs until the parent closes its socket. In a run it returns by SystemExit, as a command does."""
    for module in IMPORTED:
        with suppress(Exception):  # the run itself will say what is missing
            import_module(module)
    from rlzoo.experiment.machine import our_version

    our_version()  # of the code that is imported, whatever is edited while the grid goes on
    ended, wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    runs, template = dict[int, int](), os.getpid()
    waiting: list[Any] = [parent, ended]
    while True:
        ready = select.select(waiting, [], [])[0]
        if ended in ready:
            os.read(ended, 4096)
            _report_ended(parent, runs)
        if parent not in ready:
            continue
        data, locks, *_ = socket.recv_fds(parent, LARGEST, 1)
        if not data:
            return
        asked = json.loads(data)
        if "signal" in asked:
            _signal(runs.get(asked["job"]), asked["signal"])
        elif process := os.fork():
            runs[asked["job"]] = process
            for lock in locks:
                os.close(lock)
        else:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            parent.close()
            _become(asked, template)


def _become(asked: Mapping[str, Any], template: int) -> None:
    """Makes this process a command that has just been started. Raises SystemExit with its status."""
    end_with_parent()
    if os.getppid() != template:  # it ended before this process could ask to end with it
        raise SystemExit(1)
    os.setsid()
    with open_to_append(Path(asked["log"])) as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    os.chdir(asked["folder"])
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    sys.argv = ["rlzoo", "train", *asked["words"]]
    runpy.run_module("rlzoo", run_name="__main__", alter_sys=True)


def _report_ended(parent: socket.socket, runs: dict[int, int]) -> None:
    for job, process in list(runs.items()):
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            del runs[job]
            parent.send(json.dumps({"job": job, "status": os.waitstatus_to_exitcode(status)}).encode())


def _signal(process: int | None, number: int) -> None:
    """Signals a run that has not ended: alone if it is asked to end, with all that it has started if it is made to."""
    if process is None:
        return
    try:
        (os.killpg if number == signal.SIGKILL else os.kill)(process, number)
    except ProcessLookupError:  # of a run that has no group of its own yet
        os.kill(process, number)


def _received(end: socket.socket) -> dict[str, Any]:
    """A message; empty where the other end is gone."""
    try:
        data = end.recv(LARGEST)
    except OSError:
        data = b""
    return dict(json.loads(data)) if data else {}


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
