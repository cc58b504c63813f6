"""Checkpoints: a Hugging Face model folder plus what training needs to go on bitwise as if it had not stopped."""

import shutil
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from rlzoo.experiment.progress import OPTIMIZER, PROGRESS, Progress, checkpoints, of_training
from rlzoo.files import folder_written_atomically, write_json
from rlzoo.model.policy import Policy


def save_checkpoint(
    folder: Path, policy: Policy, optimizer: torch.optim.Optimizer, progress: Progress, keep: int
) -> Path:
    """Writes `folder/step-NNNNNN`, whole or not at all, then removes all but the newest `keep`."""
    final = folder / f"step-{progress.step:06d}"
    with folder_written_atomically(final) as partial:
        policy.save(partial)
        write_json(partial / PROGRESS, asdict(progress))
        save_file(_flatten(optimizer), partial / OPTIMIZER)
    for old in checkpoints(folder)[:-keep]:
        shutil.rmtree(old)
    return final


def load_optimizer(checkpoint: Path, optimizer: torch.optim.Optimizer) -> None:
    """Restores the optimiser's moments and step counts; its settings stay those of the configuration."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in load_file(of_training(checkpoint, OPTIMIZER)).items():
        number, name = key.split(".")
        state.setdefault(int(number), {})[name] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _flatten(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    return {
        f"{number}.{name}": tensor.contiguous()
        for number, values in optimizer.state_dict()["state"].items()
        for name, tensor in values.items()
    }
