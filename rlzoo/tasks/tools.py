"""Tools: functions of the user that a policy calls between its turns, named by `task.tools`.

Type hints and docstring, with a line for each parameter under `Args:`, make the schema that the chat template shows to
the model, as in transformers. A model calls in the form that the templates of Qwen and SmolLM3 describe:
`<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, as many as it likes in a turn.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rlzoo.config import TaskConfig
from rlzoo.errors import UserError, one_line
from rlzoo.tasks.outside import load_outside

CALLS = "<tool_call>"
"""What a chat template has that tells the model how to call."""

_CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)


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
