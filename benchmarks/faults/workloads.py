"""The commands that are killed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
OUTPUT = "output"
"""What a workload writes, in the folder that it is started in."""

SIZES = (
    "rollout.prompts_per_step=4",
    "rollout.responses_per_prompt=4",
    "rollout.max_refills=50",
    "train.minibatches_per_step=2",
    "train.tokens_per_micro_batch=200",
    "train.learning_rate=1e-4",
    "evaluation.problems=4",
    "evaluation.samples=2",
)
TRAINED = (*SIZES, "evaluation.every=8", "resume=true")
SAVED = (*TRAINED, "train.steps=24", "checkpoint.every=1")
UNSAVED = (*TRAINED, "train.steps=24", "checkpoint.every=0")
"""Nothing is saved but at the end, and when a signal asks for it."""
SLOW = ("task.reward=reward.py:reward", "task.grader_workers=2")
ADAPTIVE = "objective=grpo+stare(adaptive=true)"
GRID = (
    "compare",
    "grpo",
    "stapo",
    "seeds=0",
    "jobs=2",
    *SIZES,
    "train.steps=40",
    "evaluation.every=4",
    "evaluation.problems=24",
)
"""Its two runs train and evaluate longer than they import."""
EVALUATION = (
    *("eval", "embedded:sums", "evaluation.problems=96", "evaluation.samples=4"),
    *("rollout.rows_per_batch=8", "evaluation.decodings=[1.0/1.0,0.7/0.9]"),
)


@dataclass(frozen=True)
class Workload:
    """A command that goes on where it was stopped."""

    name: str
    words: Sequence[str]
    """What is typed behind `rlzoo`."""
    processes: int = 1
    started: int = 0
    """Processes that it starts itself, which import first; no moment falls before they have, as nothing is at stake."""


STAPO = Workload("stapo", ("train", "objective=stapo", *SAVED))
STARE = Workload("stare", ("train", ADAPTIVE, *SAVED, *SLOW))
LOPTI = Workload("lopti", ("train", "objective=lopti", *SAVED))
DAPO = Workload("dapo", ("train", "objective=dapo", *SAVED))
COMPARED = Workload("grid", (*GRID, "checkpoint.every=1"), started=2)
"""Trains each of its runs in one process: it starts torchrun only where it is given several GPUs a run."""
EVALUATED = Workload("eval", EVALUATION)
IN_TWO = (
    replace(STAPO, processes=2),
    Workload("stare", ("train", ADAPTIVE, *SAVED), processes=2),
    replace(LOPTI, processes=2),
    replace(DAPO, processes=2),
    replace(EVALUATED, processes=2),
)
UNSAVED_STAPO = Workload("stapo", ("train", "objective=stapo", *UNSAVED))
UNSAVED_STARE = Workload("stare", ("train", ADAPTIVE, *UNSAVED, *SLOW))
UNSAVED_GRID = Workload("grid", (*GRID, "checkpoint.every=0"), started=2)
UNSAVED_IN_TWO = Workload("stare in two", ("train", ADAPTIVE, *UNSAVED), processes=2)

ONE = ((STAPO, 40), (STARE, 40), (LOPTI, 40), (DAPO, 40), (EVALUATED, 30))
TWO = tuple((workload, 8) for workload in IN_TWO)
ASKED = ((UNSAVED_STAPO, 9), (UNSAVED_STARE, 12), (EVALUATED, 4), (UNSAVED_IN_TWO, 3))
GRIDS, ASKED_GRIDS = ((COMPARED, 12),), ((UNSAVED_GRID, 6),)
"""How often each is killed in one process and in two, and asked to end; grids, which start processes, by themselves."""
