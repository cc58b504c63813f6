"""Where tools are called: in processes that can be killed, each call with a limit of time and memory."""

import logging
import os
import random
import resource
import signal
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from threading import Lock
from types import TracebackType
from typing import Any, Self

import numpy
from pebble import ProcessExpired, ProcessPool

from rlzoo.errors import Fault, one_line
from rlzoo.scripts import WithoutMain
from rlzoo.tasks.grading import MEMORY_LIMIT, MOST_TIMED_OUT, STALLED
from rlzoo.tasks.outside import described
from rlzoo.tasks.tool_calls import Answer, Call, answer_text, read_call, shortened
from rlzoo.tasks.tools import Tool

HURRIED = 0.1
"""The share of its time that a call gets once `MOST_TIMED_OUT` have taken all of theirs."""
GIVEN_UP = 64
"""How many calls of a tool may run out of time in a round of rollouts before the others are answered without it."""
_GRACE = 3.0
"""Seconds that a call has beyond its time before it ends its process, should the run be gone."""
_ATTEMPTS = 3
"""How often a call is made whose process is killed from outside."""
_logger = logging.getLogger(__name__)


class ToolPool:
    """Answers calls in `workers` processes, each call in at most `timeout` seconds; a context manager.

    No call ends a run: whatever goes wrong with one is told to the model. A tool that has taken all of its time often
    gets less until `begin` is called again. The tools are the user's code and may do what that may; what a model writes
    reaches them as arguments alone.
    """

    def __init__(self, tools: Sequence[Tool], workers: int, timeout: float) -> None:
        self.tools = {tool.name: tool for tool in tools}
        self.workers, self.timeout = workers, timeout
        self.late = Counter[str]()
        """How many calls of each tool have taken all of their time since `begin`."""
        self._one_at_a_time = Lock()

    def __enter__(self) -> Self:
        if self.tools:
            self._start()
        return self

    def _begin_again(self) -> None:
        self._pool.stop()
        self._pool.join()
        self._start()

    def _start(self) -> None:
        # As graders: a worker inherits the environment alone, and hears none of the signals that ask to end.
        context = WithoutMain()
        context.set_forkserver_preload([__name__])
        initial = (dict(os.environ),)
        self._pool = ProcessPool(self.workers, initializer=_start_tools, initargs=initial, context=context)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.tools:
            self._pool.stop()
            self._pool.join()

    def begin(self) -> None:
        """A round of rollouts begins: each tool has all of its time again."""
        self.late.clear()

    def answers(self, calls: Sequence[tuple[str, int]]) -> list[Answer]:
        """To each call, with a seed for what its tool draws, the answer, in order; threads wait for each other.

        Raises Fault if no process can be started.
        """
        with self._one_at_a_time:
            return self._answers(calls)

    def _answers(self, calls: Sequence[tuple[str, int]]) -> list[Answer]:
        read = [*enumerate(read_call(call, self.tools) for call, _ in calls)]
        answers = {place: answer for place, answer in read if isinstance(answer, Answer)}
        asked = {place: call for place, call in read if isinstance(call, Call)}
        waiting = deque(asked)
        called: dict[Future[str], tuple[int, float]] = {}
        killed = Counter[int]()
        while waiting or called:
            while waiting and len(called) < 2 * self.workers:  # one more for each, so that none waits for this process
                place = waiting.popleft()
                if limit := self._limit(asked[place].name):
                    called[self._called(asked[place], calls[place][1], limit)] = place, limit
                else:
                    answers[place] = Answer("error: the tool took too long too often", is_error=True)
            ended = wait(called, 2 * self.timeout + STALLED, FIRST_COMPLETED).done
            if called and not ended:
                self._begin_again()
            for future in ended or set(called):
                place, limit = called.pop(future)
                if _is_killed(future) and killed[place] + 1 < _ATTEMPTS:
                    killed[place] += 1
                    waiting.append(place)
                    continue
                answers[place] = self._answer(future, asked[place].name, limit)
        return [answers[place] for place in range(len(calls))]

    def _limit(self, name: str) -> float:
        """Seconds that the next call of a tool has; 0 if it is not made."""
        if self.late[name] >= GIVEN_UP:
            return 0.0
        return self.timeout * (HURRIED if self.late[name] >= MOST_TIMED_OUT else 1.0)

    def _called(self, call: Call, seed: int, limit: float) -> "Future[str]":
        """The call under way."""
        asked = (self.tools[call.name], call.arguments, seed, limit + _GRACE)
        try:
            called: Future[str] = self._pool.schedule(_called, asked, timeout=limit)
        except RuntimeError:  # the pool broke when a worker died that had nothing to do
            self._begin_again()
            called = self._pool.schedule(_called, asked, timeout=limit)
        return called

    def _answer(self, called: "Future[str]", name: str, limit: float) -> Answer:
        if not called.done():
            raise Fault("the processes of task.tools do not answer; their output says why")
        try:
            return Answer(called.result())
        except TimeoutError:
            self._note_time_out(name)
            return Answer(f"error: the tool took more than {limit:g} seconds", is_error=True)
        except ProcessExpired:
            return Answer("error: the tool ended its process", is_error=True)
        except (BrokenProcessPool, CancelledError):
            raise Fault("the processes of task.tools cannot be started; their output says why") from None
        except Exception as error:
            return Answer(shortened(f"error: {one_line(error)}"), is_error=True)

    def _note_time_out(self, name: str) -> None:
        self.late[name] += 1
        told = {MOST_TIMED_OUT: f"get {HURRIED * self.timeout:g} s each", GIVEN_UP: "are not made"}
        if becomes := told.get(self.late[name]):
            _logger.warning(
                "%d calls of %s have timed out in a round of rollouts (task.tool_timeout=%g): its further ones %s",
                *(self.late[name], name, self.timeout, becomes),
            )


def _is_killed(called: "Future[str]") -> bool:
    """Whether the process of a call was killed, or its pool ended: tools end their processes otherwise."""
    if called.cancelled() or not called.done():
        return True
    error = called.exception()
    return isinstance(error, BrokenProcessPool) or (
        isinstance(error, ProcessExpired) and error.exitcode == -signal.SIGKILL
    )


def start_worker(environment: Mapping[str, str]) -> None:
    """The environment as it is now, and a limit of memory."""
    os.environ.update(environment)
    with suppress(ValueError, OSError):  # a lower limit is in force, or the system has none
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))


def silence() -> None:
    """What the user's code prints from here on goes nowhere: a model may make it print without end."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    os.close(nowhere)


def seed_generators(seed: int) -> None:
    """Seeds those of Python and of numpy."""
    random.seed(seed)
    numpy.random.seed(seed % 2**32)


def _start_tools(environment: Mapping[str, str]) -> None:
    start_worker(environment)
    silence()


def _called(tool: Tool, arguments: Mapping[str, Any], seed: int, lifetime: float) -> str:
    seed_generators(seed)
    signal.setitimer(signal.ITIMER_REAL, lifetime)
    try:
        return answer_text(tool.function(**arguments))
    except BaseException as error:  # also exit(), and what does not survive the way back
        raise RuntimeError(described(error)) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
