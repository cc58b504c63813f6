"""Processes that can be killed, for what may hang, crash or be hostile: grading, tools and episodes.

A template is a process that has loaded what is to run and is forked for each worker, so that a worker begins in
milliseconds and what it becomes reaches no other one. A worker is asked by a pickle, which this process makes, and
answers with a line of JSON, of limited length and depth, which is never taken for more than data. It has a session of
its own, `/dev/null` in place of the terminal, a limit of memory, and none of this process's files; a confined one is
inside the kernel's boundary too (`boundary`).
"""

import gc
import itertools
import json
import logging
import os
import pickle
import resource
import signal
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as ready
from multiprocessing.reduction import ForkingPickler, recv_handle, send_handle
from threading import Lock
from typing import Any, Literal, Self

from rlzoo.errors import Fault, UserError
from rlzoo.files import DEEPEST, nesting
from rlzoo.scripts import WithoutMain
from rlzoo.tasks import boundary
from rlzoo.tasks.outside import described

MEMORY_LIMIT = 4 * 2**30
"""Bytes of address space of one worker."""
LARGEST_ANSWER = 2**20
"""Bytes of a line of JSON."""
MOST_TIMED_OUT, SHORTEST = 8, 0.05
"""Number of requests of a kind that may take all of their time, and the smallest share of it. Each time this number
has timed out, the others get half as long, down to this share, in which a new worker still does its first request.
Otherwise a policy that learns to write towers of powers would take an hour of every step."""
GIVEN_UP = 1000
"""After this number of time-outs all other requests of a bounded step count as timed out, too. These time-outs have
taken 64 whole times, 11 minutes of one worker at 10 s each, and take no more of a step."""
STALLED = 60.0
"""Seconds after which a worker that has not begun what it was asked, or a template that does not answer, is taken for
lost: on a busy machine either may wait long for the processor."""
_ATTEMPTS = 3
"""How often a request is made whose worker is killed from outside."""
TO_CLOSE, _PATIENCE = 1.0, 5.0
"""Seconds that workers have together to close what they have, and a template to end them and itself."""
_NO_MORE = -1
"""In place of a worker's number where none is asked for any more."""
_BY_US = 256
"""In place of the exit code of a worker that its template killed."""
_logger = logging.getLogger(__name__)


class Patience:
    """The seconds that requests of a kind may take, fewer once many have taken all of theirs."""

    def __init__(self, timeout: float, key: str, kind: str = "responses", is_bounded: bool = False) -> None:
        self.timeout, self.key, self.kind, self.is_bounded = timeout, key, kind, is_bounded
        self.late = 0
        """How many have taken all of their time."""

    @property
    def limit(self) -> float:
        """Seconds that a request gets now; none once the others are given up."""
        if self.is_bounded and self.late >= GIVEN_UP:
            return 0.0
        return self.timeout * max(SHORTEST, 0.5 ** (self.late // MOST_TIMED_OUT))

    def note_time_out(self) -> None:
        """Counts one, and says so where others get less from here on."""
        self.late += 1
        if self.late == MOST_TIMED_OUT:
            _logger.warning(
                "%d %s have timed out (%s=%g): others of the same step get half as long, and half of that after every "
                "%d more, down to %g s",
                *(self.late, self.kind, self.key, self.timeout, MOST_TIMED_OUT, SHORTEST * self.timeout),
            )
        if self.is_bounded and self.late == GIVEN_UP:
            _logger.warning(
                "%d %s have timed out: all others of the step count as if they had, untried", self.late, self.kind
            )


@dataclass(frozen=True)
class Request:
    """What a worker is asked: the arguments of its function. `worker` names one that keeps a state; others do any.

    What may be hostile to what comes behind it `is_last`: its worker does nothing else. If one that `is_trusted` is
    refused, that is raised at once, and ends the sandbox.
    """

    arguments: tuple[Any, ...]
    patience: Patience
    worker: int | None = None
    is_last: bool = False
    is_trusted: bool = False


@dataclass(frozen=True)
class Outcome:
    """What became of a request: the `value` of its answer; or the `error` that it raised or that befell its process."""

    kind: Literal["answered", "raised", "refused", "timed_out", "ended", "killed", "changed"]
    value: Any = None
    error: str = ""

    @property
    def is_last(self) -> bool:
        """Whether the worker is gone."""
        return self.kind not in ("answered", "raised", "refused")

    def told_of(self, subject: str) -> str:
        """Why there is no value, in a line."""
        return f"{subject} {self.error}" if self.is_last else self.error


_KILLED = Outcome("killed", error="was ended from outside")


@dataclass(eq=False)
class _Worker:
    template: "_Template"
    process: int
    channel: socket.socket

    def end(self, seconds: float = 0.0) -> int:
        """Ends it; gives how it ended, if it did so by itself within some seconds."""
        self.channel.close()
        return self.template.end(self.process, seconds)


@dataclass(frozen=True)
class Work:
    """What workers do: the function that `make` gives in each of them.

    `prepare` runs once, in the template: what it loads, no worker loads again. `memory` is how many bytes of address
    space a worker may have, RLIM_INFINITY for any number.
    """

    make: Callable[[], Callable[..., Any]]
    is_confined: bool = False
    memory: int = MEMORY_LIMIT
    prepare: Callable[[], None] | None = None


class Sandbox:
    """Workers that do a work; a context manager.

    `side_by_side` requests are worked on at once. The request of a worker that is killed from outside is made again, up
    to three times, and alone; one with a name does before that all that it did, and is lost if it does something else.
    """

    def __init__(self, work: Work, named: str, side_by_side: int) -> None:
        self.work, self.named, self.side_by_side = work, named, side_by_side
        self._one_at_a_time, self._lock = Lock(), Lock()
        self._warned_of = set[str]()

    def __enter__(self) -> Self:
        self._is_ended = False
        """Whether no worker may begin any more: it is left, or what it was asked was interrupted."""
        self._waiting = defaultdict[int | None, list[_Worker]](list)
        """Workers with nothing to do, by name."""
        self._past: dict[int | None, list[tuple[Request, Outcome]]] = {}
        """What named workers have done, with what became of it."""
        self._template = _Template(self.work)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_ended = True
        for worker in itertools.chain(*self._waiting.values()):
            worker.channel.close()
        self._template.stop(TO_CLOSE)

    def ask(self, requests: Sequence[Request]) -> list[Outcome]:
        """What becomes of each, in order; threads wait for each other. No two are for one named worker.

        Raises Fault if no process can be started, and the UserError of a trusted one.
        """
        with self._one_at_a_time:
            outcomes = self._round(requests)
            for place, request in enumerate(requests):
                for _ in range(_ATTEMPTS - 1):
                    if outcomes[place].kind == "killed":
                        outcomes[place] = self._repeated(request)
                if request.worker is not None:
                    self._past.setdefault(request.worker, []).append((request, outcomes[place]))
            return outcomes

    def warn_once(self, text: str, kind: str = "") -> None:
        """Warns, but not twice of one kind; without a kind not twice of the same."""
        if (kind or text) not in self._warned_of:
            self._warned_of.add(kind or text)
            _logger.warning("%s", text)

    def end(self, names: Sequence[int | None]) -> None:
        """Ends workers by name."""
        for name in names:
            self._past.pop(name, None)
        ended = [worker for name in names for worker in self._waiting.pop(name, [])]
        for worker in ended:
            worker.channel.close()
        deadline = time.monotonic() + TO_CLOSE
        for worker in ended:
            worker.end(max(0.0, deadline - time.monotonic()))

    def _round(self, requests: Sequence[Request]) -> list[Outcome]:
        """What becomes of requests that are each made once."""
        for waiting in self._waiting.values():
            for worker in [it for it in waiting if ready([it.channel], 0)]:  # it has ended, or closed its channel
                waiting.remove(worker)
                worker.end()
        with ThreadPoolExecutor(self.side_by_side) as threads:
            try:
                attempts = [threads.submit(self._attempt, request) for request in requests]
                for attempt in wait(attempts, return_when=FIRST_EXCEPTION).done:  # wakes this thread once
                    attempt.result()
                return [attempt.result() for attempt in attempts]
            except BaseException:
                self._is_ended = True
                threads.shutdown(wait=False, cancel_futures=True)
                self._template.stop()  # with its workers, which threads wait for
                raise

    def _repeated(self, request: Request) -> Outcome:
        """What becomes of a request that is made again, behind all that its worker did if that is gone."""
        past, waiting = self._past.get(request.worker, []), self._waiting[request.worker]
        if past and not waiting:
            waiting.append(self._forked())
            for earlier, before in past:
                now = self._attempt(earlier)
                if now.kind == "killed":
                    return now
                if (now.kind, now.value) != (before.kind, before.value):  # the words of an error may name addresses
                    return Outcome("changed", error="was ended from outside, and begun again it did something else")
        return self._attempt(request)

    def _attempt(self, request: Request) -> Outcome:
        limit, waiting = request.patience.limit, self._waiting[request.worker]
        if not limit:
            return Outcome("timed_out", error="took too long too often")
        with self._lock:
            past = self._past.get(request.worker)
            if past and not waiting:
                return Outcome("ended", error="has ended") if past[-1][1].is_last else _KILLED
            worker = waiting.pop() if waiting else self._forked()
        outcome = self._answer(worker, request, limit)
        if request.is_last and not outcome.is_last:
            worker.end()
        elif not outcome.is_last:
            waiting.append(worker)
        if request.is_trusted and outcome.kind == "refused":
            raise UserError(outcome.error)
        return outcome

    def _answer(self, worker: _Worker, request: Request, limit: float) -> Outcome:
        """What a worker makes of a request; it is ended if that is the last outcome."""
        has_begun, line = False, b""
        try:
            worker.channel.settimeout(STALLED)
            worker.channel.sendall(ForkingPickler.dumps(request.arguments))
            received = worker.channel.recv(2**16)
            has_begun, line, deadline = True, received[1:], time.monotonic() + limit
            while received and not line.endswith(b"\n") and len(line) <= LARGEST_ANSWER:
                if (left := deadline - time.monotonic()) <= 0:
                    raise TimeoutError
                worker.channel.settimeout(left)
                received = worker.channel.recv(2**16)
                line += received
        except TimeoutError:
            worker.end()
            if not has_begun:
                return _KILLED
            with self._lock:
                request.patience.note_time_out()
            return Outcome("timed_out", error=f"took more than {limit:g} seconds")
        except OSError:  # it is gone
            line = b""
        if line.endswith(b"\n") and len(line) <= LARGEST_ANSWER:
            return _understood(line)
        return _KILLED if worker.end(1.0) == -signal.SIGKILL else Outcome("ended", error="ended its process")

    def _forked(self) -> _Worker:
        """A new worker. Raises Fault if there can be none."""
        for _ in range(2):
            if not self._is_ended and (worker := self._template.forked()):
                return worker
            if self._is_ended:
                raise Fault(f"the processes of {self.named} have been ended")
            self._template.stop()
            self._template = _Template(self.work)
        raise Fault(
            f"the processes of {self.named} cannot be started, or take more than {STALLED:g} seconds to load what "
            "they need; their output says why"
        )


def _understood(line: bytes) -> Outcome:
    """What a worker says, which may be hostile."""
    with suppress(ValueError, TypeError):
        kind, told = json.loads(line) if nesting(line) <= DEEPEST else ("", "")
        if kind == "answered":
            return Outcome("answered", told)
        return Outcome("refused" if kind == "refused" else "raised", error=str(told))
    return Outcome("raised", error="it answered with what is no JSON")


class _Template:
    """The process that workers are forked from, as this one sees it."""

    def __init__(self, work: Work) -> None:
        # It inherits nothing of this process but its environment: no threads, no torch, no signals that ask to end.
        context = WithoutMain()
        context.set_forkserver_preload([__name__])
        self._connection, there = context.Pipe()
        self._process = context.Process(target=_keep_template, args=(there, dict(os.environ), work))
        self._process.start()
        there.close()
        self._lock = Lock()

    def forked(self) -> _Worker | None:
        """A worker; None if the template is gone, or does not get ready."""
        here, there = socket.socketpair()
        with there, self._lock:
            try:
                self._connection.send((0, 0.0))
                send_handle(self._connection, there.fileno(), self._process.pid)
                return _Worker(self, self._reply(0.0), here)
            except (EOFError, OSError):
                here.close()
                self._process.kill()
                return None

    def end(self, process: int, seconds: float) -> int:
        """Ends a worker's process if it has not ended within some seconds; gives its exit code, as it was killed.

        Raises nothing.
        """
        with self._lock:
            try:
                self._connection.send((process, seconds))
                return self._reply(seconds)
            except (EOFError, OSError):  # with the template its workers are gone
                self._process.kill()
                return -signal.SIGKILL

    def stop(self, grace: float = 0.0) -> None:
        """Ends it and its workers. All workers together get `grace` seconds to close what they have."""
        if grace:
            with suppress(OSError):
                self._connection.send((_NO_MORE, grace))
        self._connection.close()
        self._process.join(_PATIENCE)
        self._process.kill()
        self._process.join()

    def _reply(self, after: float) -> int:
        """Its answer, which may come `after` seconds or later. Raises EOFError if it is gone or stalled."""
        if not self._connection.poll(after + STALLED):
            raise EOFError
        return int(self._connection.recv())


def _keep_template(connection: Connection, environment: Mapping[str, str], work: Work) -> None:
    """The process of a template; it ends, with its workers, when the other end of the connection is closed."""
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)  # as it is now: the process that this one is forked from may be older
    for limit, most in ((resource.RLIMIT_AS, work.memory), (resource.RLIMIT_CORE, 0)):
        with suppress(ValueError, OSError):  # a lower limit is in force, or the system has none
            resource.setrlimit(limit, (most, most))
    boundary.missing_kernel_features()  # reads what workers need to enter it
    if work.prepare:
        with suppress(Exception):  # grading a response reports the same error
            work.prepare()
    gc.freeze()  # what is there now is shared with workers, and not copied when one collects garbage
    workers, killed = set[int](), set[int]()  # who has ended keeps its number until it is asked for
    process, grace = 0, 0.0
    with suppress(EOFError, OSError):
        while process != _NO_MORE:
            process, seconds = connection.recv()
            if process == _NO_MORE:
                grace = seconds
            elif process:
                code = _exit_code(process, seconds)
                workers.discard(process)
                if code == _BY_US:
                    killed.add(process)
                connection.send(code)
            else:
                channel = recv_handle(connection)
                process = os.fork()
                if process == 0:
                    connection.close()
                    _do(work, channel)
                os.close(channel)
                workers.add(process)
                connection.send(process)
            killed = {process for process in killed if not os.waitpid(process, os.WNOHANG)[0]}
    deadline = time.monotonic() + grace
    for process in workers:
        _exit_code(process, max(0.0, deadline - time.monotonic()))


def _exit_code(process: int, seconds: float) -> int:
    """How a child ended; `_BY_US` if it did not within some seconds, and is killed with what it has started.

    It is not waited for then: to give back its memory takes milliseconds.
    """
    deadline = time.monotonic() + seconds
    while not (ended := os.waitpid(process, os.WNOHANG))[0]:
        if time.monotonic() >= deadline:
            for end in (os.killpg, os.kill):
                with suppress(ProcessLookupError):
                    end(process, signal.SIGKILL)
            return _BY_US
        time.sleep(0.002)
    return os.waitstatus_to_exitcode(ended[1])


def _do(work: Work, channel: int) -> None:
    """The process of a worker; it ends when the other end of the channel is closed."""
    try:
        os.setsid()
        boundary.end_with_parent(signal.SIGKILL)
        silence()
        if work.is_confined:
            files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            os.closerange(3, channel)
            os.closerange(channel + 1, files)
            boundary.enter()
        _serve(channel, work.make)
    finally:
        os._exit(1)


def _serve(channel: int, make: Callable[[], Callable[..., Any]]) -> None:
    """Answers requests until there are no more; the function, and what it has, is given up then."""
    with os.fdopen(channel, "rb") as asked, os.fdopen(channel, "wb", closefd=False) as told, suppress(EOFError):
        act = make()
        while True:
            arguments = pickle.load(asked)
            told.write(b"\n")
            told.flush()
            told.write(_answer(act, arguments))
            told.flush()


def _answer(act: Callable[..., Any], arguments: Sequence[Any]) -> bytes:
    """A line of JSON: what the function gives, the error that it raises, or why it refuses."""
    try:
        told = json.dumps(("answered", act(*arguments)))
    except UserError as error:
        told = json.dumps(("refused", str(error)))
    except BaseException as error:  # also exit()
        told = json.dumps(("raised", described(error)))
    return told.encode() + b"\n"


def silence() -> None:
    """What is printed from here on goes nowhere, and nothing reaches a terminal."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    os.close(nowhere)
