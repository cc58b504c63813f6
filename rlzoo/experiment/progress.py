"""Where training stands, as every checkpoint records it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PROGRESS, OPTIMIZER = "training/progress.json", "training/optimizer.safetensors"
ADAPTERS = "training/adapters.safetensors"
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


def read_progress(checkpoint: Path) -> Progress:
    """Where training stood."""
    return Progress(**json.loads(of_training(checkpoint, PROGRESS).read_text(encoding="utf-8")))


def of_training(checkpoint: Path, name: str) -> Path:
    """Where a checkpoint has its progress or its optimiser."""
    path = checkpoint / name
    return path if path.is_file() else checkpoint / _ONCE[name]
