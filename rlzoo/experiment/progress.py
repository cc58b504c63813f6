"""Where training stands, as every checkpoint records it."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rlzoo.errors import UserError, one_line

PROGRESS, OPTIMIZER = "training/progress.json", "training/optimizer.safetensors"
ADAPTERS, AHEAD = "training/adapters.safetensors", "training/ahead.safetensors"
"""What training goes on from, in a folder of a checkpoint's: what lies beside the weights, others load as weights."""
_ONCE = {PROGRESS: "training.json", OPTIMIZER: "optimizer.safetensors"}
"""Where older versions kept them."""


@dataclass(frozen=True)
class Progress:
    """Where training stands after a step; with the seed it decides everything that comes next."""

    step: int = 0
    """Rollout steps done."""
    problems_used: int = 0
    """Training problems drawn, the ones that were dropped included."""
    updates: int = 0
    """Optimiser updates behind the policy, those that were skipped among them."""
    updates_skipped: int = 0
    """Optimiser updates skipped because their gradient was not finite."""
    objective_state: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """State of the objective's controllers."""


def checkpoints(folder: Path) -> list[Path]:
    """The complete checkpoints of a run, oldest first."""
    return sorted(path for path in folder.glob("step-*") if of_training(path, PROGRESS).is_file())


def model_files(checkpoint: Path) -> list[Path]:
    """What of a checkpoint is the model: all that is not there to go on training."""
    training = {Path(PROGRESS).parent.name, *_ONCE.values()}
    return sorted(path for path in checkpoint.iterdir() if path.name not in training)


def read_progress(checkpoint: Path) -> Progress:
    """Where training stood. Raises UserError if that cannot be read."""
    with readable(checkpoint):
        return Progress(**json.loads(of_training(checkpoint, PROGRESS).read_text(encoding="utf-8")))


@contextmanager
def readable(checkpoint: Path) -> Iterator[None]:
    """While a checkpoint is read: whatever a damaged file has the libraries raise is one UserError."""
    try:
        yield
    except Exception as error:
        remedy = "remove this folder, and resume=true goes on from the one before, or from the first step"
        raise UserError(f"the checkpoint {checkpoint} is damaged: {one_line(error)}; {remedy}") from None


def of_training(checkpoint: Path, name: str) -> Path:
    """Where a checkpoint has its progress or its optimiser."""
    path = checkpoint / name
    return path if path.is_file() else checkpoint / _ONCE[name]
