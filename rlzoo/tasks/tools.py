"""Tools: functions of the user that a policy calls between its turns, named by `task.tools`.

Type hints and docstring, with a line for each parameter under `Args:`, make the schema that the chat template shows to
the model, as in transformers. A model calls in the form that the templates of Qwen and SmolLM3 describe:
`<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, as many as it likes in a turn.
"""

import json
import random
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

import numpy

from rlzoo.config import TaskConfig
from rlzoo.errors import UserError, nearest, one_line
from rlzoo.tasks.outside import load_outside
from rlzoo.tasks.sandbox import Outcome, Patience, Request, Sandbox

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


@dataclass(frozen=True)
class Answer:
    """What goes back to the model for a call, or for a turn."""

    text: str
    is_error: bool = False
    """Whether the call was malformed, or its tool unknown, raised, or took too long."""
    role: str = "tool"
    """Of the message that it becomes: `tool` for a call; an environment may also speak as `user`."""


TOO_MANY = Answer(f"error: no more than {MOST_CALLS} calls of a turn are made, and there were more", is_error=True)
"""What stands in place of the answers to the others."""


@dataclass(frozen=True)
class Call:
    """A tool's name, and its arguments by name."""

    name: str
    arguments: Mapping[str, Any]


def read_call(text: str, names: Collection[str]) -> Call | Answer:
    """The call of one of these tools, or what the model is told is wrong with it."""
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


class ToolPool:
    """Answers calls in `workers` processes, each call in at most `timeout` seconds; a context manager.

    No call ends a run: whatever goes wrong with one is told to the model. A tool that has taken all of its time often
    gets less until `begin` is called again. The tools are the user's code and may do what that may; what a model writes
    reaches them as arguments alone.
    """

    def __init__(self, tools: Sequence[Tool], workers: int, timeout: float) -> None:
        self.tools, self.timeout = {tool.name: tool for tool in tools}, timeout
        self._sandbox = Sandbox(partial(_caller, tuple(tools)), "task.tools", workers)
        self.begin()

    def __enter__(self) -> Self:
        if self.tools:
            self._sandbox.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.tools:
            self._sandbox.__exit__(kind, error, traceback)

    def begin(self) -> None:
        """A round of rollouts begins: each tool has all of its time again."""
        self._patience = {
            name: Patience(self.timeout, "task.tool_timeout", f"calls of {name}", is_bounded=True)
            for name in self.tools
        }

    def answers(self, calls: Sequence[tuple[str, int]]) -> list[Answer]:
        """To each call, with a seed for what its tool draws, the answer, in order; threads wait for each other.

        Raises Fault if no process can be started.
        """
        read = [read_call(call, self.tools) for call, _ in calls]
        asked = [
            Request((call.name, call.arguments, seed), self._patience[call.name])
            for call, (_, seed) in zip(read, calls, strict=True)
            if isinstance(call, Call)
        ]
        answers = iter(map(_answer_of, self._sandbox.ask(asked)) if asked else ())
        return [call if isinstance(call, Answer) else next(answers) for call in read]


def _answer_of(outcome: Outcome) -> Answer:
    if outcome.kind == "answered":
        return Answer(str(outcome.value))
    return Answer(shortened(f"error: {one_line(outcome.told_of('the tool'))}"), is_error=True)


def _caller(tools: Sequence[Tool]) -> Callable[[str, Mapping[str, Any], int], str]:
    """What a worker does."""
    functions = {tool.name: tool.function for tool in tools}

    def called(name: str, arguments: Mapping[str, Any], seed: int) -> str:
        seed_generators(seed)
        return answer_text(functions[name](**arguments))

    return called


def seed_generators(seed: int) -> None:
    """Seeds those of Python and of numpy."""
    random.seed(seed)
    numpy.random.seed(seed % 2**32)
