"""OpenEnv servers as environments: `task.environment=openenv:http://HOST:PORT`.

An episode is a session of the server, over its own client. The tools that the server lists are the model's; a server
that lists none has one, `step`, whose arguments are the server's action. A turn earns what its steps give, which
add up to the reward. A step that the server calls `done` ends the episode.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from typing import Any, ClassVar

import requests

from rlzoo.errors import UserError, one_line
from rlzoo.tasks.environments import Answer, Turn
from rlzoo.tasks.tools import answer_call, read_calls

OPENENV = "openenv:"
_STEP = "step"
_PATIENCE = 10.0
"""Seconds that a server has to say what it takes."""


@dataclass(frozen=True)
class OpenEnvServer:
    """A server that answered, and what it takes."""

    written: str
    functions: tuple[Mapping[str, Any], ...]
    """Name, description and parameters of each tool, as a JSON schema has them."""
    lists_tools: bool
    reward_names: ClassVar[Sequence[str]] = ("turn_reward",)
    has_user: ClassVar[bool] = False

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (self.written, self.functions, self.lists_tools)

    @property
    def tools(self) -> Sequence[str]:
        """The names of its tools."""
        return [function["name"] for function in self.functions]

    def schemas(self) -> list[dict[str, Any]]:
        """Its tools as chat templates take them."""
        return [{"type": "function", "function": dict(function)} for function in self.functions]

    def make(self) -> "OpenEnvEpisode":
        """An episode, whose session begins with its reset."""
        return OpenEnvEpisode(self)

    def step(self, instance: "OpenEnvEpisode", turn: Turn, functions: Mapping[str, Callable[..., Any]]) -> list[Answer]:
        """Sends the calls of a turn to the server, one after the other."""
        functions = {**functions, **{name: partial(instance.call, name) for name in self.tools}}
        return [answer_call(call, functions) for call in read_calls(turn, functions)]


def _received(written: str, functions: tuple[Mapping[str, Any], ...], lists_tools: bool) -> OpenEnvServer:
    """Where episodes are forked: what each of them needs is imported once."""
    import openenv.core.generic_client  # noqa: F401

    return OpenEnvServer(written, functions, lists_tools)


class OpenEnvEpisode:
    """A session of a server. What the server or the connection raises comes out."""

    turn_reward = 0.0
    done = False

    def __init__(self, server: OpenEnvServer) -> None:
        self.server = server

    def reset(self, **columns: Any) -> str:
        """Begins the session: the server's `reset` gets the seed, and those columns of the row that it names."""
        # Its loop runs in a thread: it answers the server's pings while the policy writes.
        self.client = _client(self.server.written)
        told = {name: value for name, value in columns.items() if name not in ("prompt", "answer")}
        shown = self._taken(self.client.reset(**{"seed": random.getrandbits(31), **told}))
        return f"\n{shown}" if shown else ""

    def call(self, called: str, /, **arguments: Any) -> str:
        """What the server observes after an action."""
        if self.done:
            raise ValueError("the episode is over")
        action = {"type": "call_tool", "tool_name": called, "arguments": arguments}
        return self._taken(self.client.step(action if self.server.lists_tools else arguments))

    def _taken(self, result: Any) -> str:
        self.turn_reward += float(result.reward or 0.0)
        self.done = bool(result.done)
        return _text(result.observation)


def _text(observation: Mapping[str, Any]) -> str:
    """What is said of an observation: the result of a tool; text where it is nothing else; or JSON without nulls.

    Raises RuntimeError for the error of a tool.
    """
    if "tool_name" in observation:
        if error := observation.get("error"):
            raise RuntimeError(error.get("message", error) if isinstance(error, Mapping) else error)
        result = observation.get("result")
        value = result.get("data", result) if isinstance(result, Mapping) else result
    else:
        fields = {name: value for name, value in observation.items() if value is not None}
        value = next(iter(fields.values())) if len(fields) == 1 else fields
    if value in (None, {}, ""):
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@cache
def connect(written: str) -> OpenEnvServer:
    """The server at an address, with its tools. Raises UserError if it, or the package, is not there."""
    setting = f"task.environment={written}"
    if find_spec("openenv") is None:
        raise UserError(f"{setting}: the package openenv-core is not installed; pip install 'rlzoo-llm[openenv]'")
    try:
        answer = requests.get(f"{_address(written)}/schema", timeout=_PATIENCE)
        answer.raise_for_status()
        action = answer.json()["action"]
        lists_tools = "tool_name" in action["properties"]
        functions = _listed(written) if lists_tools else [_step_of(action)]
    except (requests.RequestException, OSError, RuntimeError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{setting}: no OpenEnv server answers there as it should: {one_line(error) or type(error).__name__}; "
            f"start it, or correct the address"
        ) from None
    if not functions:
        raise UserError(f"{setting}: the server lists no tool that the model could call")
    return OpenEnvServer(written, tuple(functions), lists_tools)


def _address(written: str) -> str:
    return written.removeprefix(OPENENV).rstrip("/")


def _client(written: str, seconds: float = 3600.0) -> Any:
    """A client of the server; what bounds an episode's time is `task.tool_timeout`."""
    from openenv.core import GenericEnvClient

    return GenericEnvClient(_address(written), connect_timeout_s=_PATIENCE, message_timeout_s=seconds).sync()


def _listed(written: str) -> list[dict[str, Any]]:
    """The tools that a server lists in a session."""
    client = _client(written, _PATIENCE)
    try:
        tools = client.step({"type": "list_tools"}).observation["tools"]
    finally:
        with suppress(Exception):
            client.close()
    return [
        {"name": tool["name"], "description": tool.get("description") or "", "parameters": tool["input_schema"]}
        for tool in tools
    ]


def _step_of(action: Mapping[str, Any]) -> dict[str, Any]:
    """The tool `step`, whose parameters are the fields of the server's action."""
    properties = {name: value for name, value in action["properties"].items() if name != "metadata"}
    parameters = {**action, "type": "object", "properties": properties}
    description = parameters.pop("description", "") or "Takes a step in the environment."
    kept = {name: parameters[name] for name in ("type", "properties", "required", "$defs") if name in parameters}
    return {"name": _STEP, "description": description, "parameters": kept}
