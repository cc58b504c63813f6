"""Where tools are called: in processes that can be killed, each call with a limit of time and memory."""

import os
import resource
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from pebble import ProcessExpired, ProcessPool

from rlzoo.errors import Fault, one_line
from rlzoo.scripts import WithoutMain
from rlzoo.tasks.grading import MEMORY_LIMIT
from rlzoo.tasks.outside import described
from rlzoo.tasks.tool_calls import Answer, answer_text, read_call, shortened
from rlzoo.tasks.tools import Tool


class ToolPool:
    """Answers calls in `workers` processes, each call in at most `timeout` seconds; a context manager.

    No call ends a run: whatever goes wrong with one is told to the model. The tools are the user's code and may do what
    that may; what a model writes reaches them as arguments alone.
    """

    def __init__(self, tools: Sequence[Tool], workers: int, timeout: float) -> None:
        self.tools = {tool.name: tool for tool in tools}
        self.workers, self.timeout = workers, timeout

    def __enter__(self) -> Self:
        if self.tools:
            # As graders: a worker inherits the environment alone, and hears none of the signals that ask to end.
            context = WithoutMain()
            context.set_forkserver_preload([__name__])
            initial = (dict(os.environ),)
            self._pool = ProcessPool(self.workers, initializer=start_worker, initargs=initial, context=context)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.tools:
            self._pool.stop()
            self._pool.join()

    def answers(self, calls: Sequence[str]) -> list[Answer]:
        """To each call its answer, in order. Raises Fault if no process can be started."""
        asked = [self._asked(call) for call in calls]
        return [it if isinstance(it, Answer) else self._answer(it) for it in asked]

    def _asked(self, call: str) -> "Future[str] | Answer":
        """The call under way, or what is wrong with it."""
        read = read_call(call, self.tools)
        if isinstance(read, Answer):
            return read
        try:
            asked = (self.tools[read.name], read.arguments)
            called: Future[str] = self._pool.schedule(_called, asked, timeout=self.timeout)
        except RuntimeError as error:
            raise Fault(f"the processes of task.tools cannot be started: {one_line(error)}") from None
        return called

    def _answer(self, called: "Future[str]") -> Answer:
        try:
            return Answer(called.result())
        except TimeoutError:
            return Answer(f"error: the tool took more than {self.timeout:g} seconds", is_error=True)
        except ProcessExpired:
            return Answer("error: the tool ended its process", is_error=True)
        except BrokenProcessPool as error:
            raise Fault(f"the processes of task.tools cannot be started: {one_line(error)}") from None
        except Exception as error:
            return Answer(shortened(f"error: {one_line(error)}"), is_error=True)


def start_worker(environment: Mapping[str, str]) -> None:
    """The environment as it is now, and a limit of memory."""
    os.environ.update(environment)
    with suppress(ValueError, OSError):  # a lower limit is in force, or the system has none
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))


def _called(tool: Tool, arguments: Mapping[str, Any]) -> str:
    try:
        return answer_text(tool.function(**arguments))
    except BaseException as error:  # also exit(), and what does not survive the way back
        raise RuntimeError(described(error)) from None
