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
        compare,
        evaluate,
        inspect,
        leaderboard,
        load_run,
        train,
    )
    from rlzoo.lab.commands import map_objectives, run_suite
    from rlzoo.tasks import grade

__all__ = [
    "Comparison",
    "Run",
    "UserError",
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

_ELSEWHERE = {"grade": "rlzoo.tasks", "map_objectives": "rlzoo.lab.commands", "run_suite": "rlzoo.lab.commands"}
"""Name -> its module, if that is not `rlzoo.api`."""


def __getattr__(name: str) -> Any:
    """Imported when it is first asked for: what trains takes seconds to import."""
    if name == "choose":
        raise AttributeError("rlzoo.choose was removed; rlzoo objectives --for shows what addresses a failure mode")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_ELSEWHERE.get(name, "rlzoo.api")), name)


def __dir__() -> list[str]:
    return __all__
