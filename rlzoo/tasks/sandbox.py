"""Processes that can be killed, for what may hang, crash or be hostile: grading, tools and episodes.

A template is a process that has loaded what is to run and is forked for each worker, so that a worker begins in
milliseconds and what it becomes reaches no other one. A worker is asked by a pickle, which this process makes, and
answers with a line of JSON, of limited length and depth, which is never taken for more than data. It has a session of
its own, `/dev/null` in place of the terminal, a limit of memory, and none of this process's files; a confined one is
inside the kernel's boundary too (`boundary`).
"""

import gc
import json
import logging
import os
import pickle
import resource
import selectors
import signal
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from threading import Lock
from types import TracebackType
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
"""How many requests of a kind may take all of their time. After every so many more the others get half as long, down
to this share, in which a new worker still does its first: a policy that learns to write towers of powers would
otherwise take an hour of every step."""
GIVEN_UP = 1000
"""After so many time-outs all others count as timed out, too, where a step is bounded. They have taken 64 whole times,
11 minutes of one worker at 10 s each, and time-outs take no more of a step."""
STALLED = 60.0
"""Seconds after which a worker that has not begun what it was asked is taken for lost."""
PREPARATION = 20.0
"""Seconds that a template may take to load what its work needs."""
_ATTEMPTS = 3
"""How often a request is made whose worker is killed from outside."""
_COMMAND = struct.Struct("=cid")
"""What a template is told: to fork (b"f"), or to end (b"e") a process within so many seconds."""
_REPLY = struct.Struct("=i")
_PATIENCE = 5.0
"""Seconds that a template has to end its workers and itself."""
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

    What may be hostile to what comes behind it `is_last`: its worker does nothing else.
    """

    arguments: tuple[Any, ...]
    patience: Patience
    worker: int | None = None
    is_last: bool = False


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
_CHANGED = Outcome("changed", error="was ended from outside, and begun again it did something else")
_ENDED = Outcome("ended", error="ended its process")
_OVER = Outcome("ended", error="has ended")
_TOO_OFTEN = Outcome("timed_out", error="took too long too often")


@dataclass(eq=False)
class _Worker:
    template: "_Template"
    process: int
    channel: socket.socket
    name: int | None
    received: bytearray = field(default_factory=bytearray)
    limit: float = 0.0
    deadline: float = 0.0
    has_begun: bool = False
    is_last: bool = False
    """Whether it does nothing behind what it is asked."""


class Sandbox:
    """Workers for the function that `make` gives in each of them; a context manager.

    `side_by_side` requests are worked on at once. The request of a worker that is killed from outside is made again, up
    to three times, and alone; one with a name does before that all that it did, and is lost if it does something else.
    `prepare` runs once, in the template: what it loads, no worker loads again.
    `memory` is how many bytes of address space a worker may have, RLIM_INFINITY for any number.
    """

    def __init__(
        self,
        make: Callable[[], Callable[..., Any]],
        named: str,
        side_by_side: int,
        is_confined: bool = False,
        memory: int = MEMORY_LIMIT,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        self.make, self.named, self.side_by_side = make, named, side_by_side
        self.is_confined, self.memory, self.prepare = is_confined, memory, prepare
        self._one_at_a_time = Lock()

    def __enter__(self) -> Self:
        self._idle: list[_Worker] = []
        self._by_name: dict[int, _Worker] = {}
        self._past: dict[int, list[tuple[Request, Outcome]]] = {}
        """What named workers have done, with what became of it."""
        self._selector = selectors.DefaultSelector()
        self._template = _Template(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end([*self._by_name])
        self._template.stop()
        for worker in self._idle:
            worker.channel.close()
        self._selector.close()

    def ask(self, requests: Sequence[Request], seen: Callable[[Outcome], None] = lambda outcome: None) -> list[Outcome]:
        """What becomes of each, in order; threads wait for each other.

        `seen` has each outcome as it comes, and may raise. Raises Fault if no process can be started.
        """
        with self._one_at_a_time:
            self._seen = seen
            outcomes = self._round(requests)
            for place, request in enumerate(requests):
                for _ in range(_ATTEMPTS - 1):
                    if outcomes[place].kind == "killed":
                        outcomes[place] = self._repeated(request)
                if request.worker is not None:
                    self._past.setdefault(request.worker, []).append((request, outcomes[place]))
            return outcomes

    def end(self, names: Sequence[int]) -> None:
        """Ends named workers; together they have a second for what they do when they are given up."""
        for name in names:
            self._past.pop(name, None)
        ended = [self._by_name.pop(name) for name in names if name in self._by_name]
        for worker in ended:
            self._leave(worker)
        deadline = time.monotonic() + 1.0
        for worker in ended:
            worker.template.end(worker.process, max(0.0, deadline - time.monotonic()))

    def _repeated(self, request: Request) -> Outcome:
        """What becomes of a request that is made again, behind all that its worker did if that is gone."""
        name = request.worker
        if name is not None and name not in self._by_name:
            past = self._past.get(name, [])
            if past and past[-1][1].is_last:
                return _OVER
            self._by_name[name] = self._forked(name)
            for earlier, before in past:
                now = self._round([earlier])[0]
                if now.kind == "killed":
                    return now
                if (now.kind, now.value) != (before.kind, before.value):  # the words of an error may name addresses
                    return _CHANGED
        return self._round([request])[0]

    def _round(self, requests: Sequence[Request]) -> list[Outcome]:
        """What becomes of requests that are each made once, those of a named worker one after another."""
        lines: dict[Any, deque[int]] = {}
        for place, request in enumerate(requests):
            lines.setdefault(place if request.worker is None else (request.worker,), deque()).append(place)
        waiting, busy, outcomes = deque(lines.values()), dict[_Worker, deque[int]](), dict[int, Outcome]()

        def settle(line: deque[int], outcome: Outcome) -> None:
            self._seen(outcome)
            outcomes[line.popleft()] = outcome
            if outcome.is_last:
                outcomes.update(dict.fromkeys(line, outcome if outcome.kind == "killed" else _OVER))
            elif line:
                waiting.append(line)

        self._leave_the_dead()
        try:
            while waiting or busy:
                while waiting and len(busy) < self.side_by_side:
                    line = waiting.popleft()
                    started = self._started(requests[line[0]])
                    if isinstance(started, _Worker):
                        busy[started] = line
                    else:
                        settle(line, started)
                for worker, outcome in self._done(busy):
                    line = busy.pop(worker)
                    if outcome.kind == "timed_out":
                        requests[line[0]].patience.note_time_out()
                    settle(line, outcome)
        finally:
            for worker in busy:  # where an error ends the round
                self._lose(worker)
        return [outcomes[place] for place in range(len(requests))]

    def _started(self, request: Request) -> _Worker | Outcome:
        """The worker that works on a request from now on, or why none does."""
        limit, name = request.patience.limit, request.worker
        if not limit:
            return _TOO_OFTEN
        if name is not None and name not in self._by_name and self._past.get(name):
            return _OVER if self._past[name][-1][1].is_last else _KILLED
        worker = self._by_name.get(name) if name is not None else self._idle.pop() if self._idle else None
        worker = worker or self._forked(name)
        worker.received.clear()
        worker.limit, worker.is_last = limit, request.is_last
        worker.has_begun, worker.deadline = False, time.monotonic() + STALLED
        try:
            worker.channel.sendall(ForkingPickler.dumps(request.arguments))
        except OSError:
            return self._ended(worker)
        return worker

    def _forked(self, name: int | None) -> _Worker:
        """A new worker. Raises Fault if there can be none."""
        forked = self._template.forked()
        if forked is None:
            self._template.stop()
            self._template = _Template(self)
            forked = self._template.forked()
        if forked is None:
            raise Fault(f"the processes of {self.named} cannot be started; their output says why")
        worker = _Worker(self._template, *forked, name)
        self._selector.register(worker.channel, selectors.EVENT_READ, worker)
        if name is not None:
            self._by_name[name] = worker
        return worker

    def _done(self, busy: Mapping[_Worker, object]) -> list[tuple[_Worker, Outcome]]:
        """The workers that are done, gone or out of time, once there may be one, with what became of their requests."""
        if not busy:
            return []
        first = min(worker.deadline for worker in busy)
        ready = [key.data for key, _ in self._selector.select(max(0.0, first - time.monotonic()))]
        heard = [(worker, self._read(worker)) for worker in ready if worker in busy]
        done = [(worker, outcome) for worker, outcome in heard if outcome]
        for worker in set(busy) - {worker for worker, _ in done}:
            if worker.deadline <= time.monotonic():
                self._lose(worker)
                error = f"took more than {worker.limit:g} seconds"
                done.append((worker, Outcome("timed_out", error=error) if worker.has_begun else _KILLED))
        return done

    def _read(self, worker: _Worker) -> Outcome | None:
        """What became of a worker's request, once it has said so or is gone."""
        try:
            received = worker.channel.recv(2**16)
        except OSError:
            received = b""
        worker.received += received
        if received and not worker.has_begun:
            del worker.received[:1]
            worker.has_begun, worker.deadline = True, time.monotonic() + worker.limit
        if not received or len(worker.received) > LARGEST_ANSWER:
            return self._ended(worker)
        if not worker.received.endswith(b"\n"):
            return None
        outcome = _understood(bytes(worker.received))
        if worker.is_last:
            self._lose(worker)
        elif worker.name is None:
            self._idle.append(worker)
        return outcome

    def _ended(self, worker: _Worker) -> Outcome:
        """What became of the request of a worker that does not answer any more."""
        is_killed = self._lose(worker, seconds=1.0) == -signal.SIGKILL
        return _KILLED if is_killed else _ENDED

    def _lose(self, worker: _Worker, seconds: float = 0.0) -> int:
        """Ends a worker; gives how it ended, if it did so by itself within some seconds."""
        self._leave(worker)
        return worker.template.end(worker.process, seconds)

    def _leave(self, worker: _Worker) -> None:
        self._selector.unregister(worker.channel)
        worker.channel.close()
        if worker in self._idle:
            self._idle.remove(worker)
        if worker.name is not None and self._by_name.get(worker.name) is worker:
            del self._by_name[worker.name]

    def _leave_the_dead(self) -> None:
        """Lets go of workers that have ended with nothing to do."""
        for key, _ in self._selector.select(0):
            self._lose(key.data)


def _understood(line: bytes) -> Outcome:
    """What a worker says."""
    try:
        told = json.loads(line) if nesting(line) <= DEEPEST else None
    except ValueError:
        told = None
    if not isinstance(told, dict):
        return Outcome("raised", error="it answered with what is no JSON")
    if "value" in told:
        return Outcome("answered", told["value"])
    return Outcome("refused" if "refused" in told else "raised", error=str(told.get("refused", told.get("error"))))


class _Template:
    """The process that workers are forked from, as this one sees it."""

    def __init__(self, sandbox: Sandbox) -> None:
        # It inherits nothing of this process but its environment: no threads, no torch, no signals that ask to end.
        context = WithoutMain()
        context.set_forkserver_preload([__name__])
        here, there = context.Pipe()
        arguments = (there, dict(os.environ), sandbox.make, sandbox.is_confined, sandbox.memory, sandbox.prepare)
        self._process = context.Process(target=_keep_template, args=arguments)
        self._process.start()
        there.close()
        self._commands = socket.socket(fileno=os.dup(here.fileno()))
        here.close()
        self._is_ready = False

    def forked(self) -> tuple[int, socket.socket] | None:
        """A worker's process and the channel to it; None if the template is gone."""
        here, there = socket.socketpair()
        with there:
            try:
                if not self._is_ready:
                    self._reply()
                    self._commands.settimeout(STALLED)
                    self._is_ready = True
                socket.send_fds(self._commands, [_COMMAND.pack(b"f", 0, 0.0)], [there.fileno()])
                process = self._reply()
            except OSError:
                here.close()
                self._process.kill()
                return None
        here.settimeout(STALLED)
        return process, here

    def end(self, process: int, seconds: float) -> int:
        """Ends a worker's process if it has not ended within some seconds; gives its exit code, as it was killed.

        Raises nothing.
        """
        try:
            self._commands.sendall(_COMMAND.pack(b"e", process, seconds))
            return self._reply()
        except OSError:  # with the template its workers are gone
            with suppress(ValueError):  # it has been stopped
                self._process.kill()
            return -signal.SIGKILL

    def stop(self) -> None:
        """Ends it, with its workers."""
        self._commands.close()
        self._process.join(_PATIENCE)
        self._process.kill()
        self._process.join()
        self._process.close()

    def _reply(self) -> int:
        received = self._commands.recv(_REPLY.size)
        if len(received) < _REPLY.size:
            raise ConnectionError
        number: int = _REPLY.unpack(received)[0]
        return number


def _keep_template(
    connection: Connection,
    environment: Mapping[str, str],
    make: Callable[[], Callable[..., Any]],
    is_confined: bool,
    memory: int,
    prepare: Callable[[], None] | None,
) -> None:
    """The process of a template; it ends, with its workers, when the other end of the connection is closed."""
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)  # as it is now: the process that this one is forked from may be older
    commands = socket.socket(fileno=os.dup(connection.fileno()))
    connection.close()
    boundary.prepare()
    if prepare:
        _prepare(prepare, memory)
    gc.freeze()  # what is there now is shared with workers, and not copied when one collects garbage
    workers = set[int]()
    with suppress(OSError):
        commands.sendall(_REPLY.pack(0))
        while message := socket.recv_fds(commands, _COMMAND.size, 1):
            order, channels, _, _ = message
            if not order:
                break
            what, process, seconds = _COMMAND.unpack(order)
            if what == b"f":
                process = os.fork()
                if process == 0:
                    commands.close()
                    _work(channels[0], make, is_confined, memory)
                os.close(channels[0])
                workers.add(process)
                commands.sendall(_REPLY.pack(process))
            else:
                commands.sendall(_REPLY.pack(_exit_code(process, seconds)))
            workers = {process for process in workers if not _is_reaped(process)}
    for process in workers:
        _exit_code(process, 0.0)


def _prepare(prepare: Callable[[], None], memory: int) -> None:
    """Loads what the work needs, with its limit of memory and in at most `PREPARATION` seconds; failing is no fault."""

    def ended(*_: object) -> None:
        raise TimeoutError

    before, limits = signal.signal(signal.SIGALRM, ended), resource.getrlimit(resource.RLIMIT_AS)
    signal.setitimer(signal.ITIMER_REAL, PREPARATION)
    try:
        with suppress(Exception):  # grading a response reports the same error
            resource.setrlimit(resource.RLIMIT_AS, (memory, limits[1]))
            prepare()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, limits)


def _is_reaped(process: int) -> bool:
    try:
        return os.waitpid(process, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True


def _exit_code(process: int, seconds: float) -> int:
    """How a child ended; `_BY_US` if it did not within some seconds, and is killed with what it has started.

    It is not waited for then: to give back its memory takes milliseconds.
    """
    deadline = time.monotonic() + seconds
    while True:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= deadline:
            break
        time.sleep(0.002)
    for end in (os.killpg, os.kill):
        with suppress(ProcessLookupError):
            end(process, signal.SIGKILL)
    return _BY_US


def _work(channel: int, make: Callable[[], Callable[..., Any]], is_confined: bool, memory: int) -> None:
    """The process of a worker; it ends when the other end of the channel is closed."""
    try:
        os.setsid()
        boundary.end_with_parent(signal.SIGKILL)
        silence()
        for limit, most in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CORE, 0)):
            with suppress(ValueError, OSError):  # a lower limit is in force, or the system has none
                resource.setrlimit(limit, (most, most))
        if is_confined:
            files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            os.closerange(3, channel)
            os.closerange(channel + 1, files)
            boundary.enter()
        _serve(channel, make)
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
    """A line of JSON: what the function gives as `value`, the `error` that it raises, or why it is `refused`."""
    try:
        told = json.dumps({"value": act(*arguments)})
    except UserError as error:
        told = json.dumps({"refused": str(error)})
    except BaseException as error:  # also exit()
        told = json.dumps({"error": described(error)})
    return told.encode() + b"\n"


def silence() -> None:
    """What is printed from here on goes nowhere, and nothing reaches a terminal."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    os.close(nowhere)
