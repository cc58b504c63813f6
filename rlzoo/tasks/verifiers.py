"""Environments of the package `verifiers`, `task.name=verifiers:NAME`: their problems, turns and rewards.

NAME is that of an installed environment or of a module with `load_environment`, or `./my_file.py:load_environment`.
`task.options` are its arguments. Problems come from its dataset, held-out ones from its evaluation dataset, or from the
dataset where there is no other. The package's own loop runs each episode, and its rubric makes the reward.
"""

import json
import logging
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any, ClassVar

from rlzoo.config.sections import VERIFIERS
from rlzoo.errors import UserError
from rlzoo.tasks.environments import Answer, Turn
from rlzoo.tasks.outside import described, load_outside
from rlzoo.tasks.tools import wait_for

_EXTRA = "pip install 'rlzoo-llm[verifiers]'"


@dataclass(frozen=True)
class VerifiersEnvironment:
    """An environment of the package; pickled by what it was loaded by."""

    written: str
    options: str
    """The arguments in JSON."""
    environment: Any
    reward_names: ClassVar[Sequence[str]] = ("get_reward",)
    has_user: ClassVar[bool] = True

    def __reduce__(self) -> tuple[Any, ...]:
        return _loaded, (self.written, self.options)

    @property
    def tools(self) -> Sequence[str]:
        """The names of its tools."""
        return [tool.name for tool in self.environment.tool_defs or ()]

    def schemas(self) -> list[dict[str, Any]]:
        """Its tools as chat templates take them."""
        tools = self.environment.tool_defs or ()
        return [{"type": "function", "function": tool.model_dump(exclude_none=True)} for tool in tools]

    def make(self) -> Any:
        """An episode."""
        from rlzoo.tasks.verifiers_episode import VerifiersEpisode

        return VerifiersEpisode(self.environment)

    def step(self, instance: Any, turn: Turn, functions: Mapping[str, Callable[..., Any]]) -> Sequence[Answer]:
        """Answers a turn, the calls in which the environment makes; nothing once it has ended."""
        answers: Sequence[Answer] = wait_for(instance.step(turn))
        return answers


def load_verifiers(written: str, options: Mapping[str, Any]) -> VerifiersEnvironment:
    """The environment of `task.name`. Raises UserError if it, or the package, is not there or cannot be used."""
    return _loaded(written, json.dumps(options, sort_keys=True))


def loader(written: str) -> str:
    """What makes the environment of a `task.name`: `module:load_environment`, or `file.py:function`."""
    name = written.removeprefix(VERIFIERS)
    return name if ":" in name else f"{name.rpartition('/')[2].replace('-', '_')}:load_environment"


@cache
def _loaded(written: str, options: str) -> VerifiersEnvironment:
    setting = f"task.name={written}"
    if find_spec("verifiers") is None:
        raise UserError(f"{setting}: the package verifiers is not installed; {_EXTRA}")
    import datasets
    import verifiers

    datasets.disable_progress_bars()
    logging.getLogger("verifiers").setLevel(logging.ERROR)  # it advises authors, again in each episode's process
    if not hasattr(verifiers, "MultiTurnEnv"):
        raise UserError(
            f"{setting}: verifiers {verifiers.__version__} has no MultiTurnEnv; {_EXTRA} brings one that has"
        )
    import rlzoo.tasks.verifiers_episode  # noqa: F401  (once, and not in each episode, which is forked)

    try:
        with _handlers_kept():
            environment = load_outside("task.name", loader(written))(**json.loads(options))
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        raise UserError(f"{setting}: load_environment failed: {described(error)}") from None
    if not isinstance(environment, verifiers.Environment):
        raise UserError(f"{setting}: load_environment returned a {type(environment).__name__}, and no environment")
    if isinstance(environment, verifiers.EnvGroup):
        raise UserError(f"{setting} is a group of environments; name one of them")
    if environment.requires_group_rollouts:
        raise UserError(f"{setting}: its rubric scores whole groups; give it functions that score a single rollout")
    return VerifiersEnvironment(written, options, environment)


@contextmanager
def _handlers_kept() -> Iterator[None]:
    """Whatever handles signals does so afterwards: each environment sets handlers of its own."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
