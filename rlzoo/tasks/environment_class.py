"""Tools that keep a state: a class of the user, `task.environment`, in the form of TRL's `environment_factory`.

The class takes no arguments. `reset(**columns)` begins an episode with the columns of its row, and may return text,
which is appended to the prompt's last message. Every other public method is a tool. `get_reward()`, if there is one,
gives the episode's reward; functions of `task.reward` may ask for `environments`. Any of them may be `async`.

What turns earn, where they begin, and whether the episode is over are attributes or properties that the class itself
has, so that a model never sees them: `turn_reward`, a number, is read when a turn has ended and its calls are answered,
and is then the class's again; `turn_state` tells states apart; once `done` is true the policy writes no further turn.
`turn_answer(text)` is told each turn that calls nothing, and what it returns is what the user says to it; where it
returns None, and where there is no such method, such a turn ends the episode.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from rlzoo.config import TaskConfig
from rlzoo.config.sections import VERIFIERS
from rlzoo.errors import UserError, one_line
from rlzoo.tasks.openenv import OPENENV, connect
from rlzoo.tasks.outside import load_outside
from rlzoo.tasks.tools import Answer, load_tools, schema_of

_RESET = "reset"
REWARD, TURN_REWARD, TURN_STATE, TURN_ANSWER, DONE = "get_reward", "turn_reward", "turn_state", "turn_answer", "done"

Hears = Literal["calls", "text", "turns"]
"""What of the policy's turns an episode is told: calls; calls, and turns that call nothing; or whole turns."""


class EpisodeSource(Protocol):
    """What makes the instances of episodes, each with a `reset`, and with the rewards that it names. Picklable."""

    @property
    def hears(self) -> Hears:
        """What of the policy's turns its episodes are told; one that is told whole turns finds the calls in them."""
        ...

    @property
    def written(self) -> str:
        """How the configuration names it."""
        ...

    @property
    def reward_names(self) -> Sequence[str]:
        """What of it the reward of an episode is made of, in the order of `task.reward_weights`."""
        ...

    @property
    def tells_states(self) -> bool:
        """Whether it says itself in which state it is."""
        ...

    @property
    def tells_end(self) -> bool:
        """Whether its instances say by `done` that they are over."""
        ...

    @property
    def tools(self) -> Sequence[str]:
        """What the model may call."""
        ...

    def schemas(self) -> list[dict[str, Any]]:
        """The tools as chat templates take them."""
        ...

    def make(self) -> Any:
        """An instance for an episode."""
        ...

    def tool(self, instance: Any, name: str) -> Callable[..., Any]:
        """What answers calls of that name."""
        ...

    async def respond(self, instance: Any, turn: str, is_truncated: bool) -> Sequence[Answer]:
        """What it answers to a turn that calls nothing, or to any; nothing if the episode ends with it."""
        ...


@dataclass(frozen=True)
class EnvironmentClass:
    """A class from outside; pickled by the name that it was loaded by."""

    written: str
    kind: type

    def __reduce__(self) -> tuple[Any, ...]:
        return load_class, (self.written,)

    def make(self) -> Any:
        """An instance."""
        return self.kind()

    def tool(self, instance: Any, name: str) -> Callable[..., Any]:
        """Its method of that name."""
        method: Callable[..., Any] = getattr(instance, name)
        return method

    async def respond(self, instance: Any, turn: str, is_truncated: bool) -> Sequence[Answer]:
        """What its user says to a turn that calls nothing."""
        answer = instance.turn_answer(turn)
        answer = await answer if inspect.isawaitable(answer) else answer
        if answer is not None and not isinstance(answer, str):
            raise TypeError(f"{TURN_ANSWER} returned {one_line(repr(answer))}; it must return text, or None at the end")
        return [] if answer is None else [Answer(answer, role="user")]

    @property
    def hears(self) -> Hears:
        """Turns that call nothing where it has `turn_answer`."""
        return "text" if TURN_ANSWER in self._methods else "calls"

    @property
    def tells_states(self) -> bool:
        """Whether it says itself in which state it is."""
        return hasattr(self.kind, TURN_STATE)

    @property
    def tells_end(self) -> bool:
        """Whether it says by `done` that it is over; a method of that name is a tool."""
        return hasattr(self.kind, DONE) and DONE not in self._methods

    @property
    def reward_names(self) -> list[str]:
        """What of it the reward of an episode is made of, in the order of `task.reward_weights`."""
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
        """As chat templates take them. Raises UserError for a method whose hints or docstring do not say it."""
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
    if not environment.tools and environment.hears == "calls":
        raise UserError(
            f"task.environment={written} has no public method that the model could call, nor turn_answer; write one"
        )
    return environment


def environment_named(config: TaskConfig) -> EpisodeSource | None:
    """What a task's episodes are made by, if it has any. Raises UserError for a tool that is called as a method is."""
    if not config.episodes:
        return None
    environment = _source(config)
    for tool in load_tools(config):
        if tool.name in environment.tools:
            raise UserError(
                f"task.tools={tool.written}: a method of task.environment={config.environment} is called {tool.name} "
                f"as well; rename one of them"
            )
    return environment


def _source(config: TaskConfig) -> EpisodeSource:
    if config.name.startswith(VERIFIERS):
        from rlzoo.tasks.verifiers import load_verifiers

        return load_verifiers(config.name, config.options)
    if config.environment.startswith(OPENENV):
        return connect(config.environment)
    return load_class(config.environment)


def tool_schemas(config: TaskConfig) -> list[dict[str, Any]]:
    """Those of all that the model may call. Raises UserError for what has none."""
    environment = environment_named(config)
    return [tool.schema() for tool in load_tools(config)] + (environment.schemas() if environment else [])


def answer_roles(config: TaskConfig) -> list[str]:
    """The roles of the messages that may follow a turn of the policy."""
    environment = environment_named(config)
    says_text = environment is not None and environment.hears != "calls"
    return ["tool"] * bool(tool_schemas(config)) + ["user"] * says_text


def tool_keys(config: TaskConfig) -> Mapping[str, str]:
    """The keys that give the model something to call, with what each names."""
    key = "task.name" if config.name == config.episodes else "task.environment"
    named = {"task.tools": ", ".join(config.tools), key: config.episodes}
    return {key: value for key, value in named.items() if value}
