"""Tools: functions of the user that a policy calls between its turns, named by `task.tools`.

Type hints and docstring, with a line for each parameter under `Args:`, make the schema that the chat template shows to
the model, as in transformers. A model calls in the form that the templates of Qwen and SmolLM3 describe:
`<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, as many as it likes in a turn.
"""

import asyncio
import inspect
import json
import random
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, ClassVar

import numpy

from rlzoo.config import TaskConfig
from rlzoo.errors import UserError, nearest, one_line
from rlzoo.tasks.environments import Answer, Start, Step, Turn, seed_of
from rlzoo.tasks.outside import described, load_outside
from rlzoo.tasks.sandbox import Outcome, Patience, Request, Sandbox, Work

CALLS = "<tool_call>"
"""What a chat template has that tells the model how to call."""

_CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
LONGEST_ANSWER = 8192
"""Characters of an answer that go back to the model."""
LONGEST_CALL = 65_536
"""Characters of a call that are read."""

MOST_CALLS = 32
"""Calls of a turn that are made."""


@dataclass(frozen=True)
class Tool:
    """A function from outside; pickled by the name that it was loaded by."""

    written: str
    function: Callable[..., Any]

    def __reduce__(self) -> tuple[Any, ...]:
        return load_tool, (self.written,)

    @property
    def name(self) -> str:
        """By which the model calls it."""
        return self.function.__name__

    def schema(self) -> dict[str, Any]:
        """As chat templates take it. Raises UserError for a function whose hints or docstring do not say it."""
        return schema_of(f"task.tools={self.written}", self.function)


def schema_of(named: str, function: Callable[..., Any]) -> dict[str, Any]:
    """Of a function that the configuration has `named` so. Raises UserError where hints or docstring do not say it."""
    from transformers.utils.chat_template_utils import get_json_schema

    try:
        return dict(get_json_schema(function))
    except Exception as error:  # its parsers raise whatever a docstring makes them stumble over
        raise UserError(
            f"{named}: {one_line(error)}; give each parameter a type hint and a line under Args: in the docstring"
        ) from None


def load_tool(written: str) -> Tool:
    """The function of that name. Raises UserError if it is not there, or not a function."""
    function = load_outside("task.tools", written)
    if not callable(function) or not hasattr(function, "__name__"):
        raise UserError(f"task.tools={written} is {one_line(repr(function))}, and not a function")
    return Tool(written, function)


def load_tools(config: TaskConfig) -> tuple[Tool, ...]:
    """The functions of `task.tools`. Raises UserError for two of one name, and for keys without effect."""
    tools = tuple(load_tool(written) for written in config.tools)
    names = [tool.name for tool in tools]
    for tool in tools:
        if names.count(tool.name) > 1:
            raise UserError(f"task.tools={tool.written}: two tools are called {tool.name}; rename one of them")
    return tools


def calls_in(text: str) -> list[str]:
    """What a turn calls: the text of each call, in order."""
    return [call.strip() for call in _CALL.findall(text)]


TOO_MANY = Answer(f"error: no more than {MOST_CALLS} calls of a turn are made, and there were more", is_error=True)
"""The answer to all calls beyond `MOST_CALLS`."""


@dataclass(frozen=True)
class Call:
    """A tool's name, and its arguments by name."""

    name: str
    arguments: Mapping[str, Any]


def read_calls(turn: Turn, names: Collection[str]) -> list[Call | Answer]:
    """Reads the calls that a turn makes of these tools; a turn that is truncated, or the last, makes none."""
    calls = [] if turn.is_truncated or turn.is_last or not names else calls_in(turn.text)
    read = [read_call(call, names) for call in calls[:MOST_CALLS]]
    return [*read, TOO_MANY] if len(calls) > MOST_CALLS else read


def read_call(text: str, names: Collection[str]) -> Call | Answer:
    """Reads a call of one of these tools; gives the error for the policy if it is none."""
    try:
        read = json.loads(text) if len(text) <= LONGEST_CALL else None
    except (ValueError, RecursionError):
        read = None
    arguments = read.get("arguments", {}) if isinstance(read, dict) else None
    if not isinstance(read, dict) or not isinstance(arguments, dict) or not isinstance(read.get("name"), str):
        return Answer('error: a call is {"name": ..., "arguments": {...}} in JSON', is_error=True)
    if read["name"] not in names:
        close = nearest(read["name"][:100], names)
        return Answer(f"error: there is no tool of that name{close}; there are {', '.join(names)}", True)
    return Call(read["name"], arguments)


def answer_text(value: Any) -> str:
    """What a tool returned as the model reads it: text as it is, anything else as JSON."""
    return shortened(value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False))


def shortened(text: str) -> str:
    """At most `LONGEST_ANSWER` characters, with how many are left out; lone surrogates, which no tokenizer takes,
    become question marks.
    """
    cut = f"\n... {len(text) - LONGEST_ANSWER} characters more" if len(text) > LONGEST_ANSWER else ""
    return text[:LONGEST_ANSWER].encode("utf-8", "replace").decode("utf-8") + cut


def answer_call(call: Call | Answer, functions: Mapping[str, Callable[..., Any]]) -> Answer:
    """Calls the function of that name here. Whatever it raises becomes an answer, also `exit()`."""
    if isinstance(call, Answer):
        return call
    try:
        return Answer(answer_text(wait_for(functions[call.name](**call.arguments))))
    except BaseException as error:
        return Answer(shortened(f"error: {described(error)}"), is_error=True)


def wait_for(value: Any) -> Any:
    """Returns a value, or the result of one that can be awaited, from the one event loop of this process."""
    return _event_loop().run_until_complete(value) if inspect.isawaitable(value) else value


@cache
def _event_loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


class ToolPool(Sandbox):
    """The environment in which functions of the user answer calls; a context manager.

    It makes calls in `workers` processes, each in at most `timeout` seconds. A tool that has often taken all of its
    time gets less until the next `reset`. The tools are the user's code and may do what that may; what a model writes
    reaches them as arguments alone.
    """

    is_stateful: ClassVar[bool] = False

    def __init__(self, tools: Sequence[Tool], workers: int, timeout: float) -> None:
        self.tools, self.timeout = {tool.name: tool for tool in tools}, timeout
        super().__init__(Work(partial(_caller, tuple(tools))), "task.tools", workers)

    def reset(self, starts: Sequence[Start], seed: int) -> list[Step]:
        """Gives each tool all of its time again, and each row a seed for what its tools draw."""
        self._seeds = [seed_of(seed, f"tools of row {start.row}") for start in starts]
        self._patience = {
            name: Patience(self.timeout, "task.tool_timeout", f"calls of {name}", is_bounded=True)
            for name in self.tools
        }
        return [Step() for _ in starts]

    def step(self, turns: Mapping[int, Turn]) -> dict[int, Step]:
        """Answers the calls of each turn, in order; threads wait for each other. Raises Fault without processes."""
        read = {row: read_calls(turn, self.tools) for row, turn in turns.items()}
        requests = [
            Request((call.name, call.arguments, self._call_seed(row, turns[row], place)), self._patience[call.name])
            for row, calls in read.items()
            for place, call in enumerate(calls)
            if isinstance(call, Call)
        ]
        answers = iter(map(_answer_of, self.ask(requests)) if requests else ())
        return {
            row: Step([call if isinstance(call, Answer) else next(answers) for call in calls])
            for row, calls in read.items()
        }

    def grade(self, texts: Sequence[str]) -> None:
        """The task's grader makes the rewards."""

    def _call_seed(self, row: int, turn: Turn, place: int) -> int:
        return seed_of(self._seeds[row], f"turn {turn.number}, call {place}")


def _answer_of(outcome: Outcome) -> Answer:
    if outcome.kind == "answered":
        return Answer(str(outcome.value))
    return Answer(shortened(f"error: {one_line(outcome.told_of('the tool'))}"), is_error=True)


def _caller(tools: Sequence[Tool]) -> Callable[[str, Mapping[str, Any], int], str]:
    """Returns the function of a worker."""
    functions = {tool.name: tool.function for tool in tools}

    def call(name: str, arguments: Mapping[str, Any], seed: int) -> str:
        seed_generators(seed)
        return answer_text(wait_for(functions[name](**arguments)))

    return call


def seed_generators(seed: int) -> None:
    """Seeds the generators of Python and of numpy."""
    random.seed(seed)
    numpy.random.seed(seed % 2**32)
