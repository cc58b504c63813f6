r"""Reinforcement-learning objectives for LLM reasoning, compared fairly: from Python as from the command line.

    run = rlzoo.train(objective="stapo+clip_higher", seed=1, **{"train.steps": 50})
    run.metrics; run.evaluations; run.curves(); run.evaluate(); run.inspect()
    rlzoo.compare(["grpo", "dapo", "stapo"], seeds=3).table
    rlzoo.grade("1/2", r"So \boxed{0.5}.").correct

Keys, defaults and files are those of the commands of the same names; a mistake is a `UserError`, in the same one line.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rlzoo.errors import UserError

if TYPE_CHECKING:
    from rlzoo.api import (
        Comparison,
        Run,
        choose,
        compare,
        evaluate,
        inspect,
        leaderboard,
        load_run,
        map_objectives,
        run_suite,
        train,
    )
    from rlzoo.tasks import grade

__all__ = [
    "Comparison",
    "Run",
    "UserError",
    "choose",
    "compare",
    "evaluate",
    "grade",
    "inspect",
    "leaderboard",
    "load_run",
    "map_objectives",
    "run_suite",
    "train",
]


def __getattr__(name: str) -> Any:
    """Imported when it is first asked for: what trains takes seconds to import."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("rlzoo.tasks" if name == "grade" else "rlzoo.api"), name)


def __dir__() -> list[str]:
    return __all__
