"""Environments from outside: a class of the user, `task.environment`, in the form of TRL's `environment_factory`.

The class takes no arguments. `reset(**columns)` begins an episode with the columns of its row, and may return text,
which is appended to the prompt's last message. Every other public method is a tool. `get_reward()`, if there is one,
gives the episode's reward; functions of `task.reward` may ask for `environments`. Any of them may be `async`.

What turns earn, where they begin, and whether the episode is over are attributes or properties that the class itself
has, so that a model never sees them: `turn_reward`, a number, is read when a turn has ended and its calls are answered,
and is then the class's again; `turn_state` tells states apart; once `done` is true the policy writes no further turn.
`turn_answer(text)` receives each turn that calls nothing, and what it returns is what the user says to it; where it
returns None, and where there is no such method, such a turn ends the episode.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rlzoo.config import TaskConfig
from rlzoo.errors import UserError, one_line
from rlzoo.tasks.environments import Answer, Turn
from rlzoo.tasks.outside import load_outside
from rlzoo.tasks.tools import answer_call, calls_in, load_tools, read_calls, schema_of, shortened, wait_for

_RESET = "reset"
REWARD, TURN_REWARD, TURN_STATE, TURN_ANSWER, DONE = "get_reward", "turn_reward", "turn_state", "turn_answer", "done"


@dataclass(frozen=True)
class EnvironmentClass:
    """A class from outside; pickled by the name that it was loaded by."""

    written: str
    kind: type

    def __reduce__(self) -> tuple[Any, ...]:
        return load_class, (self.written,)

    def step(self, instance: Any, turn: Turn, functions: Mapping[str, Callable[..., Any]]) -> list[Answer]:
        """Makes the calls of a turn one after the other; its user hears one that calls nothing and is not truncated."""
        functions = {**functions, **{name: getattr(instance, name) for name in self.tools}}
        if not self.has_user or turn.is_truncated or (functions and calls_in(turn.text)):
            return [answer_call(call, functions) for call in read_calls(turn, functions)]
        answer = wait_for(instance.turn_answer(turn.text))
        if answer is not None and not isinstance(answer, str):
            raise TypeError(f"{TURN_ANSWER} returned {one_line(repr(answer))}; it must return text, or None at the end")
        return [] if answer is None else [Answer(shortened(answer), role="user")]

    @property
    def has_user(self) -> bool:
        """Whether it has `turn_answer`."""
        return TURN_ANSWER in self._methods

    @property
    def reward_names(self) -> list[str]:
        """The rewards of the instance itself, in the order of `task.reward_weights`."""
        return [REWARD] * (REWARD in self._methods) + [TURN_REWARD] * hasattr(self.kind, TURN_REWARD)

    @property
    def tools(self) -> list[str]:
        """The methods that the model may call."""
        return [name for name in self._methods if name not in (_RESET, REWARD, TURN_ANSWER)]

    @property
    def _methods(self) -> list[str]:
        named = inspect.getmembers(self.kind, inspect.isfunction)  # of the class: an instance would run its properties
        return [name for name, _ in named if not name.startswith("_")]

    def schemas(self) -> list[dict[str, Any]]:
        """Describes the tools as chat templates take them. Raises UserError where hints or docstring do not say it."""
        return [schema_of(f"task.environment={self.written}: {name}", self._bound(name)) for name in self.tools]

    def _bound(self, name: str) -> Callable[..., Any]:
        """The method as an instance has it; none is made, as that may connect to what serves the environment."""
        method: Callable[..., Any] = inspect.getattr_static(self.kind, name).__get__(object(), self.kind)
        return method


def load_class(written: str) -> EnvironmentClass:
    """The class of that name. Raises UserError if it is not there, no class, or one without `reset` or a tool."""
    kind = load_outside("task.environment", written)
    if not isinstance(kind, type):
        raise UserError(
            f"task.environment={written} is {one_line(repr(kind))}, and not a class; give one that takes no arguments"
        )
    environment = EnvironmentClass(written, kind)
    if not callable(getattr(kind, _RESET, None)):
        raise UserError(f"task.environment={written} has no method reset; write def reset(self, **columns)")
    for name in (TURN_REWARD, TURN_STATE):
        if inspect.isfunction(getattr(kind, name, None)):
            raise UserError(f"task.environment={written}: {name} is a method; make it an attribute or a @property")
    if not environment.tools and not environment.has_user:
        raise UserError(
            f"task.environment={written} has no public method that the model could call, nor turn_answer; write one"
        )
    return environment


def environment_named(config: TaskConfig) -> EnvironmentClass | None:
    """Returns the class of `task.environment`, if there is one. Raises UserError for a tool with a method's name."""
    if not config.environment:
        return None
    if config.environment.startswith("openenv:"):
        raise UserError(
            f"task.environment={config.environment}: addresses of servers were removed; write a class whose methods "
            "call the server's client, as docs/guides/turns.md has one"
        )
    environment = load_class(config.environment)
    for tool in load_tools(config):
        if tool.name in environment.tools:
            raise UserError(
                f"task.tools={tool.written}: a method of task.environment={config.environment} is called {tool.name} "
                f"as well; rename one of them"
            )
    return environment


def tool_schemas(config: TaskConfig) -> list[dict[str, Any]]:
    """Describes all that the model may call. Raises UserError for what has no schema."""
    environment = environment_named(config)
    return [tool.schema() for tool in load_tools(config)] + (environment.schemas() if environment else [])


def answer_roles(config: TaskConfig) -> list[str]:
    """The roles of the messages that may follow a turn of the policy."""
    environment = environment_named(config)
    has_user = environment is not None and environment.has_user
    return ["tool"] * bool(tool_schemas(config)) + ["user"] * has_user


def tool_keys(config: TaskConfig) -> Mapping[str, str]:
    """The keys that give the model something to call, with what each names."""
    named = {"task.tools": ", ".join(config.tools), "task.environment": config.environment}
    return {key: value for key, value in named.items() if value}
