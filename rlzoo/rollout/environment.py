"""Which environment a task has: one turn, turns with tools between them, or one of its own."""

from collections.abc import Iterator
from contextlib import contextmanager

from rlzoo.config import TaskConfig
from rlzoo.errors import UserError
from rlzoo.model.tokenizer import Tokenizer
from rlzoo.rollout.base import RolloutEngine
from rlzoo.rollout.sampler import Environment, SingleTurn
from rlzoo.rollout.turns import ToolUse
from rlzoo.tasks import written_outside
from rlzoo.tasks.grading import GraderPool
from rlzoo.tasks.outside import load_outside
from rlzoo.tasks.tool_pool import ToolPool
from rlzoo.tasks.tools import load_tools


def environment_of(config: TaskConfig) -> type[Environment]:
    """That of a task: what its class has as `environment` if it comes from outside; else a turn, or several with tools.

    Raises UserError for tools of a task that has an environment.
    """
    written = written_outside(config.name)
    task = load_outside("task.name", written) if written else None
    own: type[Environment] | None = getattr(task, "environment", None)
    if own is not None and config.tools:
        raise UserError(
            f"task.tools={config.tools[0]} has no effect on task.name={config.name}, which has an environment of its "
            f"own; leave task.tools out"
        )
    return own or (ToolUse if config.tools else SingleTurn)


@contextmanager
def environment_opened(
    config: TaskConfig, engine: RolloutEngine, graders: GraderPool, tokenizer: Tokenizer
) -> Iterator[Environment]:
    """The environment of a task, with the processes of its tools while it is used."""
    kind = environment_of(config)
    if not issubclass(kind, ToolUse):
        yield kind(engine, graders, tokenizer, config.grade_truncated)
        return
    with ToolPool(load_tools(config), config.grader_workers, config.tool_timeout) as tools:
        yield kind(engine, graders, tokenizer, config.grade_truncated, tools=tools, max_turns=config.max_turns)
