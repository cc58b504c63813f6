"""The commands that are killed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
OUTPUT = "output"
"""What a workload writes, in the folder that it is started in."""

SIZES = (
    "rollout.prompts_per_step=3",
    "rollout.responses_per_prompt=4",
    "rollout.max_refills=50",
    "train.minibatches_per_step=2",
    "train.tokens_per_micro_batch=200",
    "train.learning_rate=1e-4",
    "evaluation.problems=4",
    "evaluation.samples=2",
    "evaluation.every=4",
)
TRAINED = (*SIZES, "train.steps=8", "resume=true")
STARE = ("objective=grpo+stare(adaptive=true)", "task.reward=reward.py:reward", "task.grader_workers=2")
"""It keeps a state, and is graded by a slow reward."""
LOPTI = ("objective=lopti", "rollout.ahead=1")
PARTIAL = ("objective=stapo", "rollout.partial_tokens=2")
TURNS = (f"{ROOT}/configs/calculator.yaml", "objective=gigpo")
TEACHER = ("objective=opd", "model.teacher=embedded:sums", "task.teacher_prompt={answer}={prompt}")
GRID = ("compare", "grpo", "stapo", "rloo", "seeds=0", "jobs=2", *SIZES, "train.steps=32", "evaluation.problems=24")
"""The third run takes the evaluation of the untrained model from another one. It trains for most of its time."""
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
    """Processes that it starts itself and that import first; no moment falls before they have: nothing is at stake."""


def training(name: str, words: Sequence[str], every: int, processes: int = 1) -> Workload:
    """A run that saves each step; or, with `every=0`, at its end and when a signal asks for it."""
    return Workload(name, ("train", *words, *TRAINED, f"checkpoint.every={every}"), processes)


EVALUATED = Workload("eval", EVALUATION)
ONE = (
    (training("stare", STARE, 1), 25),
    (training("lopti, ahead", LOPTI, 1), 20),
    (training("partial rollouts", PARTIAL, 1), 30),
    (training("turns", TURNS, 1), 30),
    (training("teacher", TEACHER, 1), 25),
    (EVALUATED, 8),
)
TWO = (
    (training("stare", STARE[:1], 1, processes=2), 12),
    (training("partial rollouts", PARTIAL, 1, processes=2), 14),
    (training("teacher", TEACHER, 1, processes=2), 10),
    (replace(EVALUATED, processes=2), 4),
)
ASKED = (
    (training("stare", STARE, 0), 10),
    (training("partial rollouts", PARTIAL, 0), 9),
    (training("turns", TURNS, 0), 9),
    (training("teacher", TEACHER, 0), 8),
    (training("stare in two", STARE[:1], 0, processes=2), 4),
)
GRIDS = ((Workload("grid", (*GRID, "checkpoint.every=1"), started=1), 14),)
ASKED_GRIDS = ((Workload("grid", (*GRID, "checkpoint.every=0"), started=1), 8),)
"""How often each is killed in one process and in two, and asked to end; grids, which start processes, by themselves."""
