"""Grading in processes that can be killed.

A grader runs third-party code on what a model wrote: it may hang, crash, or be talked into running the answer itself
(some scorers of reasoning-gym evaluate it as Python). So every response is graded in a worker process with a limit of
time and memory, and no right to write files, start processes or open connections (which rewards from outside may, to
ask a judge). That stops accidents, not attackers.
"""

import contextlib
import logging
import os
import resource
import signal
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from multiprocessing.reduction import ForkingPickler
from types import TracebackType
from typing import Any, Literal, Self

from pebble import ProcessPool

from rlzoo.errors import UserError, one_line
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
    other response anything. One whose grading raises or crashes the worker has failed and is logged, but a UserError is
    raised here: it says that the grader is of no use. Workers inherit nothing from this process but its environment: no
    threads, no torch, no Ctrl-C. A grader that `may_connect` may open connections in them.
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
            return self._as_empty(problem, "timed_out")
        except BrokenProcessPool:
            return None
        except UserError:
            raise
        except Exception as error:
            _logger.warning("grading a response to %s failed: %s", problem.id, error)
            return self._as_empty(problem, "failed")

    def _as_empty(self, problem: Problem, outcome: Literal["timed_out", "failed"]) -> Graded | None:
        """The grade of an empty response, which is given in a worker too: that may be slow as well."""
        try:
            return Graded(self._pool.schedule(_grade, (problem, ""), timeout=self.timeout).result(), outcome)
        except TimeoutError:
            raise UserError(
                f"task.grader_timeout={self.timeout:g} seconds are not enough to grade an empty response to "
                f"{problem.id}; raise it"
            ) from None
        except BrokenProcessPool:
            return None
        except UserError:
            raise
        except Exception as error:
            raise UserError(
                f"grading an empty response to {problem.id} failed ({one_line(error)}); a grader must give it a reward"
            ) from None

    def _start(self) -> None:
        try:
            ForkingPickler.dumps(self.grader)
        except Exception as error:
            raise UserError(
                f"the grader cannot be sent to the processes that grade ({one_line(error)}); define it, or "
                f"the function that task.reward names, at the top of a module"
            ) from None
        # A worker that replaces a killed one is forked from a process that has imported the grader already.
        context = WithoutMain()
        context.set_forkserver_preload([__name__, self.grader.__module__])
        may_connect = getattr(self.grader, "may_connect", False)
        worker = (self.grader, self.timeout + _GRACE, may_connect, dict(os.environ))
        self._pool = ProcessPool(self.workers, initializer=_start_worker, initargs=worker, context=context)
        self._pool.schedule(int)  # starts the workers now, while the caller does something else

    def _stop(self) -> None:
        self._pool.stop()
        self._pool.join()


_grader: Grader
_lifetime: float


def _start_worker(grader: Grader, lifetime: float, may_connect: bool, environment: Mapping[str, str]) -> None:
    global _grader, _lifetime
    os.environ.update(environment)  # as it is now: the process that workers are forked from may be older
    _grader, _lifetime = grader, lifetime
    # Die at once even inside a long calculation in C, where a Python handler would have to wait.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.dont_write_bytecode = True
    with contextlib.suppress(ValueError, OSError):  # a lower limit is in force, or the system has none
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    sys.addaudithook(partial(_forbid, tuple(it for it in _FORBIDDEN if not (may_connect and it == "socket."))))


def _grade(problem: Problem, response: str) -> Grade:
    # Should the parent be gone, nobody else ends an endless calculation.
    signal.setitimer(signal.ITIMER_REAL, _lifetime)
    try:
        return _grader(problem, response)
    except UserError:
        raise
    except BaseException as error:  # an answer may even call exit(); and not every exception survives the way back
        raise RuntimeError(repr(error)) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _forbid(forbidden: tuple[str, ...], event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook that lets a worker read, and nothing else."""
    if event == "open":
        _, mode, flags = arguments
        if set(mode or "") & set("wax+") or flags & 0b11:  # os.O_WRONLY | os.O_RDWR
            raise PermissionError("a grader must not write files")
    elif event.startswith(forbidden) and event not in _ALLOWED:
        raise PermissionError(f"a grader must not call {event}")


_FORBIDDEN = ("os.", "shutil.", "subprocess.", "socket.", "ctypes.", "pty.", "signal.")
_ALLOWED = ("os.listdir", "os.scandir", "os.walk", "os.fwalk", "os.putenv", "os.unsetenv")
