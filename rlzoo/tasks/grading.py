"""Grading in processes that can be killed.

A grader runs third-party code on what a model wrote: it may hang, crash, or be talked into running the answer itself
(some scorers of reasoning-gym evaluate it as Python). So every response is graded in a worker process with a limit of
time and memory, and no right to write files, start processes or open connections. That stops accidents, not attackers.
"""

import contextlib
import logging
import resource
import signal
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self

from pebble import ProcessPool

from rlzoo.errors import UserError
from rlzoo.scripts import WithoutMain
from rlzoo.tasks.base import Grade, Grader, Problem

MEMORY_LIMIT = 4 * 2**30
"""Bytes of address space of one worker."""

_GRACE = 3.0
_ATTEMPTS = 3
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Graded:
    """A grade and how it came about; `timed_out` and `failed` responses have the grade of an empty one."""

    grade: Grade
    outcome: Literal["graded", "timed_out", "failed"]


class GraderPool:
    """Grades responses in `workers` processes, each response in at most `timeout` seconds.

    Use it as a context manager. A response whose grading takes longer is killed with its worker, costs that time and no
    other response anything. One whose grading raises or crashes the worker has failed and is logged. Workers inherit
    nothing from this process: no threads, no torch, no Ctrl-C.
    """

    def __init__(self, grader: Grader, workers: int = 1, timeout: float = 10.0) -> None:
        if workers < 1:
            raise UserError(f"task.grader_workers={workers} must be at least 1")
        if timeout <= 0:
            raise UserError(f"task.grader_timeout={timeout} must be more than 0 seconds")
        self.grader = grader
        self.workers = workers
        self.timeout = timeout

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()

    def grade(self, problems: Sequence[Problem], responses: Sequence[str]) -> list[Graded]:
        """Grades response i to problem i, in order. Raises RuntimeError if workers cannot be started."""
        pairs = list(zip(problems, responses, strict=True))
        graded: dict[int, Graded] = {}
        attempts = 0
        while len(graded) < len(pairs):
            before = len(graded)
            graded |= self._round({i: pair for i, pair in enumerate(pairs) if i not in graded})
            attempts = attempts + 1 if len(graded) == before else 0
            if attempts == _ATTEMPTS:
                raise RuntimeError("the processes of the grader cannot be started; their output says why")
        return [graded[i] for i in range(len(pairs))]

    def _round(self, pairs: Mapping[int, tuple[Problem, str]]) -> dict[int, Graded]:
        """Grades what it can before the pool breaks, if it does, and mends the pool."""
        futures = {i: self._pool.schedule(_grade, pair, timeout=self.timeout) for i, pair in pairs.items()}
        graded = {i: self._graded(pairs[i][0], future) for i, future in futures.items()}
        if None in graded.values():
            self._stop()
            self._start()
        return {i: grade for i, grade in graded.items() if grade is not None}

    def _graded(self, problem: Problem, future: Future[Grade]) -> Graded | None:
        try:
            return Graded(future.result(), "graded")
        except TimeoutError:
            return Graded(self.grader(problem, ""), "timed_out")
        except BrokenProcessPool:
            return None
        except Exception as error:
            _logger.warning("grading a response to %s failed: %s", problem.id, error)
            return Graded(self.grader(problem, ""), "failed")

    def _start(self) -> None:
        # A worker that replaces a killed one is forked from a process that has imported the grader already.
        context = WithoutMain()
        context.set_forkserver_preload([__name__, self.grader.__module__])
        worker = (self.grader, self.timeout + _GRACE)
        self._pool = ProcessPool(self.workers, initializer=_start_worker, initargs=worker, context=context)
        self._pool.schedule(int)  # starts the workers now, while the caller does something else

    def _stop(self) -> None:
        self._pool.stop()
        self._pool.join()


_grader: Grader
_lifetime: float


def _start_worker(grader: Grader, lifetime: float) -> None:
    global _grader, _lifetime
    _grader, _lifetime = grader, lifetime
    # Die at once even inside a long calculation in C, where a Python handler would have to wait.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.dont_write_bytecode = True
    with contextlib.suppress(ValueError, OSError):  # a lower limit is in force, or the system has none
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    sys.addaudithook(_forbid)


def _grade(problem: Problem, response: str) -> Grade:
    # Should the parent be gone, nobody else ends an endless calculation.
    signal.setitimer(signal.ITIMER_REAL, _lifetime)
    try:
        return _grader(problem, response)
    except BaseException as error:  # an answer may even call exit(); and not every exception survives the way back
        raise RuntimeError(repr(error)) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _forbid(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook that lets a worker read, and nothing else."""
    if event == "open":
        _, mode, flags = arguments
        if set(mode or "") & set("wax+") or flags & 0b11:  # os.O_WRONLY | os.O_RDWR
            raise PermissionError("a grader must not write files")
    elif event.startswith(_FORBIDDEN) and event not in _ALLOWED:
        raise PermissionError(f"a grader must not call {event}")


_FORBIDDEN = ("os.", "shutil.", "subprocess.", "socket.", "ctypes.", "pty.", "signal.")
_ALLOWED = ("os.listdir", "os.scandir", "os.walk", "os.fwalk", "os.putenv", "os.unsetenv")
