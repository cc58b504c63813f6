"""Which environment a task has: one turn, several with tools or an instance of a class between them, or its own."""

from collections.abc import Iterator
from contextlib import contextmanager

from rlzoo.config import TaskConfig
from rlzoo.errors import UserError
from rlzoo.model.tokenizer import Tokenizer
from rlzoo.rollout.base import RolloutEngine
from rlzoo.rollout.sampler import Environment, SingleTurn
from rlzoo.rollout.stateful import StatefulToolUse
from rlzoo.rollout.turns import ToolUse
from rlzoo.tasks import written_outside
from rlzoo.tasks.environment_class import environment_named, tool_keys
from rlzoo.tasks.episodes import EpisodePool, EpisodeSettings
from rlzoo.tasks.grading import GraderPool
from rlzoo.tasks.outside import load_outside
from rlzoo.tasks.reward import load_rewards, weights_of
from rlzoo.tasks.tools import ToolPool, load_tools


def environment_of(config: TaskConfig) -> type[Environment]:
    """That of a task: what its class has as `environment` if it comes from outside; else a turn, or several with tools.

    Raises UserError for tools of a task that has an environment.
    """
    written = written_outside(config.name)
    task = load_outside("task.name", written) if written else None
    environment: type[Environment] | None = getattr(task, "environment", None)
    if environment is not None and (keys := tool_keys(config)):
        key, named = next(iter(keys.items()))
        raise UserError(
            f"{key}={named} has no effect on task.name={config.name}, which has an environment of its own; "
            f"leave {key} out"
        )
    return environment or (StatefulToolUse if config.episodes else ToolUse if config.tools else SingleTurn)


@contextmanager
def environment_opened(
    config: TaskConfig, engine: RolloutEngine, graders: GraderPool, tokenizer: Tokenizer
) -> Iterator[Environment]:
    """The environment of a task, with the processes of its tools while it is used."""
    kind = environment_of(config)
    if issubclass(kind, StatefulToolUse):
        with EpisodePool(episode_settings(config), config.grader_workers) as episodes:
            yield kind(
                engine, graders, tokenizer, config.grade_truncated, episodes=episodes, max_turns=config.max_turns
            )
        return
    if not issubclass(kind, ToolUse):
        yield kind(engine, graders, tokenizer, config.grade_truncated)
        return
    with ToolPool(load_tools(config), config.grader_workers, config.tool_timeout) as tools:
        yield kind(engine, graders, tokenizer, config.grade_truncated, tools=tools, max_turns=config.max_turns)


def episode_settings(config: TaskConfig) -> EpisodeSettings:
    """What the episodes of `task.environment` share. Raises UserError for what cannot be used."""
    environment = environment_named(config)
    assert environment is not None
    rewards, tools = load_rewards(config), load_tools(config)
    return EpisodeSettings(environment, tools, rewards, weights_of(config), config.tool_timeout)
