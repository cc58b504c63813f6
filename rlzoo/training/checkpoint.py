"""Checkpoints: a Hugging Face model folder plus what training needs to go on bitwise as if it had not stopped."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from rlzoo.files import folder_written_atomically, write_json
from rlzoo.model.policy import Policy

OPTIMIZER = "optimizer.safetensors"
PROGRESS = "training.json"


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


def save_checkpoint(
    folder: Path, policy: Policy, optimizer: torch.optim.Optimizer, progress: Progress, keep: int
) -> Path:
    """Writes `folder/step-NNNNNN`, whole or not at all, then removes all but the newest `keep`."""
    final = folder / f"step-{progress.step:06d}"
    with folder_written_atomically(final) as partial:
        policy.save(partial)
        save_file(_flatten(optimizer), partial / OPTIMIZER)
        write_json(partial / PROGRESS, asdict(progress))
    for old in checkpoints(folder)[:-keep]:
        shutil.rmtree(old)
    return final


def checkpoints(folder: Path) -> list[Path]:
    """The complete checkpoints of a run, oldest first."""
    return sorted(path for path in folder.glob("step-*") if (path / PROGRESS).is_file())


def read_progress(checkpoint: Path) -> Progress:
    """Where training stood."""
    return Progress(**json.loads((checkpoint / PROGRESS).read_text(encoding="utf-8")))


def load_optimizer(checkpoint: Path, optimizer: torch.optim.Optimizer) -> None:
    """Restores the optimiser's moments and step counts; its settings stay those of the configuration."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in load_file(checkpoint / OPTIMIZER).items():
        number, name = key.split(".")
        state.setdefault(int(number), {})[name] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _flatten(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    return {
        f"{number}.{name}": tensor.contiguous()
        for number, values in optimizer.state_dict()["state"].items()
        for name, tensor in values.items()
    }
