"""Grading in processes that can be killed.

A grader runs third-party code on what a model wrote: it may hang, crash, or be talked into running the answer itself
(some scorers of reasoning-gym evaluate it as Python). So every response is graded in a worker process with a limit of
time and memory. The kernel lets the graders of this package, and those of reasoning-gym, write nothing, start no
process and open no connection (`boundary`). Where it cannot, and around graders of the user's own, which are the user's
code, an audit hook of Python does so, which stops accidents and not attackers; rewards may open connections, to ask a
judge.
"""

import contextlib
import inspect
import logging
import math
import os
import resource
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing.reduction import ForkingPickler
from types import TracebackType
from typing import Any, Literal, Self

from pebble import ProcessExpired, ProcessPool

from rlzoo.errors import Fault, UserError, one_line
from rlzoo.scripts import WithoutMain
from rlzoo.tasks import boundary
from rlzoo.tasks.base import Grade, Grader, Problem

MEMORY_LIMIT = 4 * 2**30
"""Bytes of address space of one worker."""

LARGEST_REWARD = 1e18
"""Groups are centred and scaled in single precision, in which the square of a larger one is infinite."""
MOST_TIMED_OUT, SHORTEST = 8, 0.05
"""How many responses of a step may take all of their time. After every so many more the others get half as long, down
to this share, in which a new worker still grades its first: a policy that learns to write towers of powers would
otherwise take an hour of every step."""
GIVEN_UP = 1000
"""After so many time-outs of a step all other responses count as timed out, too. They have taken 64 whole times, 11
minutes of one worker at 10 s each, and time-outs take no more of a step. What is graded outside of steps (a file, an
evaluation) has no such end: every grade is asked for."""
STALLED = 60.0
"""Seconds beyond two time-outs after which a response that waits is taken for lost: to start a worker takes less."""
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
    other response anything. A worker may be killed from outside, so that a response whose worker dies is graded again;
    one that ends three of them, or whose grading raises, has failed and is logged, but a UserError is raised here: it
    says that the grader is of no use. Workers inherit nothing from this process but its environment: no threads, no
    torch; and they hear none of the signals that ask to end. A grader that `may_connect` may open connections in them.
    Where the kernel has no boundary for them, a warning says so, once. A grader that is `instant` compares a few
    characters and does nothing else: it is called in this process.
    """

    def __init__(self, grader: Grader, workers: int = 1, timeout: float = 10.0) -> None:
        if workers < 1:
            raise UserError(f"task.grader_workers={workers} must be at least 1")
        if timeout <= 0:
            raise UserError(f"task.grader_timeout={timeout} must be more than 0 seconds")
        self.grader = grader
        self.workers = workers
        self.timeout = timeout
        self._late, self._is_in_step = 0, False
        """Time-outs of this step, or of this call."""

    @contextmanager
    def one_step(self) -> Iterator[None]:
        """While the time-outs of all calls count together; otherwise those of each call do."""
        self._late, self._is_in_step = 0, True
        try:
            yield
        finally:
            self._is_in_step = False

    @property
    def limit(self) -> float:
        """Seconds that a response gets now; none once a step is given up."""
        if self._is_in_step and self._late >= GIVEN_UP:
            return 0.0
        return self.timeout * max(SHORTEST, 0.5 ** (self._late // MOST_TIMED_OUT))

    def __enter__(self) -> Self:
        if self._is_instant:
            return self
        if _is_confined(self.grader):
            _tell_of_no_boundary()
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._is_instant:
            self._stop()

    @property
    def _is_instant(self) -> bool:
        return getattr(self.grader, "instant", False)

    def grade(self, problems: Sequence[Problem], responses: Sequence[str]) -> list[Graded]:
        """Grades response i to problem i, in order. Raises Fault if workers cannot be started."""
        pairs = list(zip(problems, responses, strict=True))
        if self._is_instant:
            return [Graded(checked_grade(self.grader(*pair), pair[0]), "graded") for pair in pairs]
        if not self._is_in_step:
            self._late = 0
        graded: dict[int, Graded] = {}
        ended = Counter[int]()
        fruitless = 0
        while len(graded) < len(pairs):
            before = len(graded) + ended.total()
            graded |= self._round({i: pair for i, pair in enumerate(pairs) if i not in graded}, ended)
            fruitless = 0 if len(graded) + ended.total() > before else fruitless + 1
            if fruitless == _ATTEMPTS:
                raise Fault("the processes of the grader cannot be started; their output says why")
        return [graded[i] for i in range(len(pairs))]

    def _round(self, pairs: Mapping[int, tuple[Problem, str]], ended: Counter[int]) -> dict[int, Graded]:
        """Grades what it can in the time that a response gets now, and begins the pool again if it breaks.

        `ended` counts a response's workers that died. Once a response gets less time, those that wait are left; once it
        gets none, all have timed out.
        """
        graded: dict[int, Graded] = {}
        is_broken, limit = False, self.limit
        lost: dict[int, Literal["timed_out", "failed"]] = {} if limit else dict.fromkeys(pairs, "timed_out")
        futures = {i: self._scheduled(*pair, limit) for i, pair in pairs.items() if limit}
        for i, future in futures.items():
            if self.limit < limit and not future.done():
                future.cancel()
                continue
            try:
                graded[i] = Graded(self._result(future, is_broken), "graded")
            except TimeoutError:
                lost[i] = "timed_out"
                self._late += 1
                self._tell_of_hurry()
            except BrokenProcessPool:
                is_broken = True
            except UserError:
                raise
            except Exception as error:
                ended[i] += isinstance(error, ProcessExpired)
                if not isinstance(error, ProcessExpired) or ended[i] >= _ATTEMPTS:
                    _logger.warning("grading a response to %s failed: %s", pairs[i][0].id, error)
                    lost[i] = "failed"
        for i, outcome in lost.items():  # behind all others, which it would wait for
            try:
                graded[i] = self._as_empty(pairs[i][0], outcome, is_last=ended[i] + 1 >= _ATTEMPTS)
            except ProcessExpired:
                ended[i] += 1
            except BrokenProcessPool:
                is_broken = True
        if is_broken:
            self._stop()
            self._start()
        return graded

    def _tell_of_hurry(self) -> None:
        if self._late == MOST_TIMED_OUT:
            _logger.warning(
                "%d responses have timed out (task.grader_timeout=%g): others of the same step get half as long, and "
                "half of that after every %d more, down to %g s",
                *(self._late, self.timeout, MOST_TIMED_OUT, SHORTEST * self.timeout),
            )
        if self._is_in_step and self._late == GIVEN_UP:
            _logger.warning(
                "%d responses have timed out: all others of the step count as if they had, ungraded", self._late
            )

    def _scheduled(self, problem: Problem, response: str, limit: float) -> Future[Grade]:
        try:
            return self._pool.schedule(_grade, (problem, response), timeout=limit)
        except RuntimeError as error:  # the pool broke when a worker died that had nothing to do
            failed = Future[Grade]()
            failed.set_exception(BrokenProcessPool(str(error)))
            return failed

    def _result(self, future: Future[Grade], is_broken: bool = False) -> Grade:
        """Raises BrokenProcessPool for one that comes no more: a worker may die with a response that nobody misses."""
        if not wait([future], 0 if is_broken else 2 * self.timeout + STALLED).done:
            raise BrokenProcessPool("no worker grades")
        return future.result()

    def _as_empty(self, problem: Problem, outcome: Literal["timed_out", "failed"], is_last: bool) -> Graded:
        """The grade of an empty response, which is given in a worker too: that may be slow as well."""
        try:
            return Graded(self._result(self._scheduled(problem, "", self.timeout)), outcome)
        except TimeoutError:
            raise UserError(
                f"task.grader_timeout={self.timeout:g} seconds are not enough to grade an empty response to "
                f"{problem.id}; raise it"
            ) from None
        except (UserError, BrokenProcessPool):
            raise
        except Exception as error:
            if isinstance(error, ProcessExpired) and not is_last:
                raise
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
        worker = (self.grader, self.timeout + _GRACE, dict(os.environ))
        self._pool = ProcessPool(self.workers, initializer=_start_worker, initargs=worker, context=context)
        self._pool.schedule(int)  # starts the workers now, while the caller does something else

    def _stop(self) -> None:
        self._pool.stop()
        self._pool.join()


def _is_confined(grader: Grader) -> bool:
    """Whether it is one of this package, which needs neither files nor connections; a user's own is the user's code."""
    kind = grader if inspect.isfunction(grader) else type(grader)
    return kind.__module__.startswith(f"{__package__}.") and not getattr(grader, "runs_users_code", False)


@cache
def _tell_of_no_boundary() -> None:
    if lacking := boundary.lacking():
        _logger.warning(
            "answers are graded without the kernel's boundary, as %s: Python's audit hook stops accidents, not "
            "attackers; grade what somebody hostile wrote in a container",
            lacking,
        )


_grader: Grader
_lifetime: float


def _start_worker(grader: Grader, lifetime: float, environment: Mapping[str, str]) -> None:
    global _grader, _lifetime
    os.environ.update(environment)  # as it is now: the process that workers are forked from may be older
    _grader, _lifetime = grader, lifetime
    sys.dont_write_bytecode = True
    with contextlib.suppress(ValueError, OSError):  # a lower limit is in force, or the system has none
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    if _is_confined(grader) and not boundary.lacking():
        boundary.enter()
    may_connect = getattr(grader, "may_connect", False)
    sys.addaudithook(partial(_forbid, tuple(event for event in _FORBIDDEN if not (may_connect and event == "socket."))))


def _grade(problem: Problem, response: str) -> Grade:
    # Should the parent be gone, nobody else ends an endless calculation.
    signal.setitimer(signal.ITIMER_REAL, _lifetime)
    try:
        return checked_grade(_grader(problem, response), problem)
    except UserError:
        raise
    except BaseException as error:  # an answer may even call exit(); and not every exception survives the way back
        raise RuntimeError(repr(error)) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


ROUNDING = 1e-6
"""By which a share of what is right may be above 1 or below 0."""


def checked_grade(grade: Any, problem: Problem) -> Grade:
    """The grade in plain numbers. Raises UserError for what is none: whoever wrote the grader has to know."""
    if not isinstance(grade, Grade):
        raise UserError(
            f"the grader of task.name returned {one_line(repr(grade))} for {problem.id}; it must return a grade: "
            f"rlzoo.tasks.Grade(reward, correct), such as Grade(1.0, 1.0)"
        )
    reward, correct = _reward(grade.reward, problem), _number(grade.correct)
    if not isinstance(grade.rewards, tuple | list):
        raise UserError(f"the rewards for {problem.id} are {one_line(repr(grade.rewards))}; give a tuple of numbers")
    rewards = tuple(_reward(value, problem) for value in grade.rewards)
    if not -ROUNDING <= correct <= 1 + ROUNDING:
        raise UserError(
            f"the correctness of a response to {problem.id} is {one_line(repr(grade.correct))}; it must be a number "
            f"from 0 to 1"
        )
    return Grade(reward, min(max(correct, 0.0), 1.0), rewards)


def _reward(value: Any, problem: Problem) -> float:
    reward = _number(value)
    if not abs(reward) <= LARGEST_REWARD:
        raise UserError(
            f"a reward for {problem.id} is {one_line(repr(value))}; it must be a number from "
            f"-{LARGEST_REWARD:g} to {LARGEST_REWARD:g}, so that its square is one too"
        )
    return reward


def _number(value: Any) -> float:
    """NaN for what is no number."""
    try:
        return math.nan if isinstance(value, str) else float(value)
    except (TypeError, ValueError):
        return math.nan


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
