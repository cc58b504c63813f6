"""Grading in processes that can be killed.

A grader runs third-party code on what a model wrote: it may hang, crash, or be talked into running the answer itself
(some scorers of reasoning-gym evaluate it as Python). So responses are graded in a sandbox, but for those of the
embedded tasks, and where a scorer `evaluates`, each response that could do something has a process of its own, so that
it reaches no other's grade. The kernel lets the graders of this package, and those of reasoning-gym, write nothing,
start no process and open no connection. Graders of the user's own are the user's code: an audit hook of Python is
around them, which stops accidents and not attackers; rewards may open connections, to ask a judge.
"""

import inspect
import logging
import math
import os
import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing.reduction import ForkingPickler
from typing import Any, Literal, Self

from rlzoo.config import TaskConfig
from rlzoo.errors import UserError, one_line
from rlzoo.tasks import boundary
from rlzoo.tasks.base import Grade, Grader, Problem, Response
from rlzoo.tasks.sandbox import MEMORY_LIMIT, Outcome, Patience, Request, Sandbox, Work

LARGEST_REWARD = 1e18
"""Groups are centred and scaled in single precision, in which the square of a larger one is infinite."""
ROUNDING = 1e-6
"""By which a share of what is right may be above 1 or below 0."""
REMEDY = (
    "If a function of task.reward has to start a process or write a file, set task.unconfined_reward=true, or ask a "
    "server (examples/judge.py)"
)
_MOST_TOLD = 4
"""Of the calls that one grade wanted to make and must not, how many a worker tells of."""
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Graded:
    """A grade and how it came about; `timed_out` and `failed` responses have the grade of an empty one."""

    grade: Grade
    outcome: Literal["graded", "timed_out", "failed"]


class GraderPool(Sandbox):
    """Grades responses in `workers` processes, each response in at most `timeout` seconds; a context manager.

    A response whose grading takes longer costs that time and no other response anything. One whose process is killed
    from outside is graded again; one that ends its process or whose grading raises has failed and is logged, but a
    UserError is raised here: it says that the grader is of no use. A grader's `may_call` lists the prefixes of Python's
    audit events that it may cause, such as `socket.`. An `unconfined` grader may do anything; a warning says so. Where
    the kernel has no boundary, a warning says so once, and a grader that `evaluates` is refused unless
    `is_unconfined_allowed`. A grader that is `instant` compares a few characters and does nothing else: it is called in
    this process.
    """

    def __init__(
        self,
        grader: Grader,
        workers: int = 1,
        timeout: float = 10.0,
        is_unconfined_allowed: bool = False,
        steps: int = 1,
    ) -> None:
        super().__init__(Work(partial(_grading, grader, is_confined=False)), "the grader", workers)
        self.grader, self.timeout = grader, timeout
        self.is_unconfined_allowed = is_unconfined_allowed
        self.patience = Patience(timeout, "task.grader_timeout")
        self.step, self.steps = 0, steps
        """How many training steps are done, and how many there are."""
        self._evaluates = getattr(grader, "evaluates", False)
        own = "instant" in vars(type(grader))  # a user's class inherits none
        self._is_instant = own and getattr(grader, "instant", False)

    @classmethod
    def of(cls, config: TaskConfig, grader: Grader, steps: int = 1) -> Self:
        """The pool that a task's configuration describes, for a run of `steps` steps."""
        return cls(grader, config.grader_workers, config.grader_timeout, config.allow_unconfined, steps)

    @contextmanager
    def one_step(self, step: int = 0) -> Iterator[None]:
        """Context of the step behind `step` others: the time-outs of its calls count together."""
        self.step = step
        self.patience = Patience(self.timeout, "task.grader_timeout", is_bounded=True)
        try:
            yield
            self.step = step + 1
        finally:
            self.patience.is_bounded = False

    def __enter__(self) -> Self:
        if not self._is_instant:
            self.work = self._checked_work()
            super().__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._is_instant:
            super().__exit__()

    @property
    def reads_tokens(self) -> bool:
        """Whether its grader asks for a `Response` with its token ids."""
        return getattr(self.grader, "reads_tokens", False)

    def try_out(self, problems: Sequence[Problem]) -> None:
        """Grades an empty response to the first problem where the grader is the user's, which may be of no use."""
        if getattr(self.grader, "runs_users_code", False):
            self.grade(problems[:1], [self._empty()] * len(problems[:1]))

    def grade(self, problems: Sequence[Problem], responses: Sequence[str]) -> list[Graded]:
        """Grades response i to problem i, in order. Raises Fault if processes cannot be started."""
        pairs = list(zip(problems, responses, strict=True))
        if self._is_instant:
            return [Graded(checked_grade(self.grader(*pair), pair[0]), "graded") for pair in pairs]
        if not self.patience.is_bounded:
            self.patience = Patience(self.timeout, "task.grader_timeout")
        outcomes = self._asked(pairs, self.patience)
        graded = {i: self._graded(*pairs[i], outcome) for i, outcome in enumerate(outcomes)}
        lost = [i for i, result in graded.items() if result is None]
        empty = self._asked([(pairs[i][0], self._empty()) for i in lost], Patience(self.timeout, "task.grader_timeout"))
        for i, outcome in zip(lost, empty, strict=True):
            grade = self._as_empty(pairs[i][0], outcome)
            graded[i] = Graded(grade, "timed_out" if outcomes[i].kind == "timed_out" else "failed")
        return [result for result in graded.values() if result is not None]

    def _empty(self) -> Response:
        """A response without a token, as one of this step."""
        return Response.of("", (), "", self.step, self.steps)

    def _asked(self, pairs: Sequence[tuple[Problem, str]], patience: Patience) -> list[Outcome]:
        """What workers make of responses. Raises the UserError of a grader that no response can have taken over."""
        requests = [
            Request(pair, patience, is_last=self._evaluates and self._may_act(*pair), is_trusted=not self._evaluates)
            for pair in pairs
        ]
        return self.ask(requests)

    def _may_act(self, problem: Problem, response: str) -> bool:
        """Whether running a response may do more than take long, or this is not known."""
        try:
            return not self.grader.is_harmless(problem, response)  # type: ignore[attr-defined]
        except Exception:
            return True

    def _graded(self, problem: Problem, response: str, outcome: Outcome) -> Graded | None:
        """None for a response that counts as empty."""
        error = outcome.told_of("its process")
        if outcome.kind == "answered":
            try:
                return Graded(self._read(outcome.value, problem), "graded")
            except (UserError, TypeError, ValueError) as wrong:
                error = one_line(wrong)
        if outcome.kind != "timed_out":
            _logger.warning("grading a response to %s failed: %s", problem.id, one_line(error))
        return None

    def _as_empty(self, problem: Problem, outcome: Outcome) -> Grade:
        """The grade of an empty response, which is given by a worker too: that may be slow as well."""
        if outcome.kind != "answered":
            raise UserError(
                f"grading an empty response to {problem.id} failed ({one_line(outcome.told_of('its process'))}); a "
                f"grader must give it a reward within task.grader_timeout={self.timeout:g} seconds"
            )
        return self._read(outcome.value, problem)

    def _read(self, value: Any, problem: Problem) -> Grade:
        """The grade in what a worker answered. Raises ValueError, TypeError or UserError for what is none."""
        reward, correct, rewards, is_scored, forbidden = value
        may_abstain = getattr(self.grader, "may_abstain", False)
        is_scored = bool(is_scored) or not may_abstain  # a response may have taken over the worker
        if not is_scored:
            self.warn_once(
                f"task.reward gives None for a response to {problem.id}. Such responses and their groups are left out "
                "of training, and count as wrong in evaluation",
                kind="no reward",
            )
        for what in [] if _is_confined(self.grader) else forbidden[:_MOST_TOLD]:
            remedy = f". {REMEDY}" if may_abstain else ""
            self.warn_once(f"{one_line(str(what))}, which was refused, and went on without{remedy}")
        return checked_grade(Grade(reward, correct, tuple(rewards), is_scored), problem, may_abstain)

    def _checked_work(self) -> Work:
        """Raises UserError for a grader that cannot be sent, or that only a boundary makes safe where there is none."""
        missing = boundary.missing_kernel_features() if _is_confined(self.grader) else ""
        if missing and self._evaluates and not self.is_unconfined_allowed:
            raise UserError(
                f"task.allow_unconfined=false: the scorer runs what a model wrote, and nothing confines it here, as "
                f"{missing}. Use a container and set it to true, or use another machine."
            )
        if missing:
            _tell_of_no_boundary(missing)
        try:
            ForkingPickler.dumps(self.grader)
        except Exception as error:
            raise UserError(
                f"the grader cannot be sent to the processes that grade ({one_line(error)}); define it, or "
                f"the function that task.reward names, at the top of a module"
            ) from None
        is_confined = _is_confined(self.grader) and not missing
        memory = MEMORY_LIMIT
        if getattr(self.grader, "unconfined", False):
            _logger.warning("task.unconfined_reward=true: task.reward may start processes and write files")
            memory = resource.RLIM_INFINITY
        prepare = getattr(self.grader, "prepare", None) if _is_confined(self.grader) else None
        return Work(partial(_grading, self.grader, is_confined), is_confined, memory, prepare)


def _is_confined(grader: Grader) -> bool:
    """Whether it is one of this package, which needs neither files nor connections; a user's own is the user's code."""
    kind = grader if inspect.isfunction(grader) else type(grader)
    return kind.__module__.startswith(f"{__package__}.") and not getattr(grader, "runs_users_code", False)


@cache
def _tell_of_no_boundary(missing: str) -> None:
    _logger.warning(
        "answers are graded without the kernel's boundary, as %s: Python's audit hook stops accidents, not attackers; "
        "grade responses that may be hostile in a container",
        missing,
    )


def _grading(grader: Grader, is_confined: bool) -> Callable[[Problem, str], Any]:
    """What a worker does: a grade as plain numbers."""
    sys.dont_write_bytecode = True
    refused = set[str]()
    if not is_confined and not getattr(grader, "unconfined", False):
        allowed = getattr(grader, "may_call", ())
        forbidden = tuple(event for event in _FORBIDDEN if event not in allowed)
        sys.addaudithook(partial(_forbid, forbidden, refused))

    def graded(problem: Problem, response: str) -> Any:
        refused.clear()
        grade = checked_grade(grader(problem, response), problem, getattr(grader, "may_abstain", False))
        return grade.reward, grade.correct, grade.rewards, grade.is_scored, sorted(refused)[:_MOST_TOLD]

    return graded


def checked_grade(grade: Any, problem: Problem, may_abstain: bool = False) -> Grade:
    """The grade in plain numbers. Raises UserError if the grader returned something else."""
    if not isinstance(grade, Grade):
        raise UserError(
            f"the grader of task.name returned {one_line(repr(grade))} for {problem.id}; it must return a grade: "
            f"rlzoo.tasks.Grade(reward, correct), such as Grade(1.0, 1.0)"
        )
    reward, correct = _reward(grade.reward, problem), _number(grade.correct)
    if not isinstance(grade.rewards, tuple | list):
        raise UserError(f"the rewards for {problem.id} are {one_line(repr(grade.rewards))}; give a tuple of numbers")
    rewards = tuple(
        math.nan if may_abstain and isinstance(value, float) and math.isnan(value) else _reward(value, problem)
        for value in grade.rewards
    )
    if not -ROUNDING <= correct <= 1 + ROUNDING:
        raise UserError(
            f"the correctness of a response to {problem.id} is {one_line(repr(grade.correct))}; it must be a number "
            f"from 0 to 1"
        )
    return Grade(reward, min(max(correct, 0.0), 1.0), rewards, grade.is_scored)


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
    except (TypeError, ValueError, OverflowError):
        return math.nan


class ForbiddenCall(PermissionError):
    """What a grader does and must not."""


def _forbid(forbidden: tuple[str, ...], refused: set[str], event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook that lets a worker read, and nothing else; `refused` has what it did not let it do."""
    if event == "open":
        path, mode, flags = arguments
        if (set(mode or "") & set("wax+") or flags & 0b11) and path != os.devnull:  # os.O_WRONLY | os.O_RDWR
            refused.add(f"a grader wanted to write the file {one_line(repr(path))}")
            raise ForbiddenCall("a grader must not write files")
    elif event.startswith(forbidden) and event not in _ALLOWED:
        refused.add(f"a grader wanted to call {event}")
        raise ForbiddenCall(f"a grader must not call {event}")


_FORBIDDEN = ("os.", "shutil.", "subprocess.", "socket.", "ctypes.", "pty.", "signal.")
_ALLOWED = ("os.listdir", "os.scandir", "os.walk", "os.fwalk", "os.putenv", "os.unsetenv")
