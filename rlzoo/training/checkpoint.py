"""Checkpoints: a Hugging Face model folder plus what training needs to go on bitwise as if it had not stopped."""

import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from time import monotonic

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from safetensors.torch import load_file, save_file
from torch import Tensor

from rlzoo.config import CheckpointConfig
from rlzoo.errors import UserError
from rlzoo.experiment.progress import (
    ADAPTERS,
    AHEAD,
    OPTIMIZER,
    PROGRESS,
    Progress,
    check_whole,
    checkpoints,
    damage,
    newest_whole,
)
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import folder_written_atomically, write_json
from rlzoo.model.accelerator import said_by_main
from rlzoo.model.lora import adapters, set_adapters
from rlzoo.model.manifest import has_manifest, write_manifest
from rlzoo.model.policy import Policy
from rlzoo.model.sharding import sharded_as, whole

_MOMENTS = {"step", "exp_avg", "exp_avg_sq"}
"""What AdamW keeps of a parameter."""


class CheckpointTimes:
    """When checkpoints are due: by the step, and by the main process's clock, which decides nothing else."""

    def __init__(self, asked: CheckpointConfig, last_step: int, accelerator: Accelerator) -> None:
        self.asked, self.last_step, self.accelerator = asked, last_step, accelerator
        self.saved_at = monotonic()

    def is_due(self, step: int) -> bool:
        """Whether one is due after a step. All processes ask together."""
        every, minutes = self.asked.every, self.asked.minutes
        if step == self.last_step or (every and step % every == 0):
            return True
        return minutes > 0 and said_by_main(self.accelerator, monotonic() - self.saved_at >= 60 * minutes)

    def saved(self) -> None:
        """One is saved."""
        self.saved_at = monotonic()


def save_checkpoint(
    folder: Path,
    policy: Policy,
    optimizer: torch.optim.Optimizer,
    progress: Progress,
    keep: int,
    writes: bool = True,
    ahead: Mapping[str, Tensor] | None = None,
) -> Path:
    """Writes `folder/step-NNNNNN`, whole or not at all, then removes all but the newest `keep`.

    If the policy is sharded, all processes must call it together, and one of them `writes`. What was sampled `ahead`
    is kept with it.
    """
    final = folder / f"step-{progress.step:06d}"
    weights, moments = policy.whole_weights(keep=writes), _flatten(optimizer, keep=writes)
    if not writes or (final.is_dir() and not damage(final)):  # what was saved is not touched again
        return final
    with folder_written_atomically(final) as partial:
        policy.save(partial, weights)
        write_json(partial / PROGRESS, asdict(progress))
        save_file(moments, partial / OPTIMIZER)
        if trained := adapters(policy):
            save_file(trained, partial / ADAPTERS)
        if ahead is not None:
            save_file(dict(ahead), partial / AHEAD)
        write_manifest(partial, progress.step)
    for old in checkpoints(folder)[:-keep]:
        shutil.rmtree(old)
    return final


def checkpoint_of_all(folder: RunFolder, step: int | None) -> Path | None:
    """That of every process. Raises UserError on all of them for a damaged one, and for folders that differ."""
    checkpoint, damaged = None, None
    try:
        checkpoint = _checkpoint_of(folder, step)
    except UserError as error:
        damaged = error
    names = sorted(set(gather_object([checkpoint.name if checkpoint else "damaged" if damaged else "none"])))
    if damaged:
        raise damaged
    if len(names) > 1:
        raise UserError(
            f"output={folder.path}: the processes find different checkpoints there ({', '.join(names)}); they need "
            f"one folder, on a disk that all machines share"
        )
    return checkpoint


def _checkpoint_of(folder: RunFolder, step: int | None = None) -> Path | None:
    """That of a step, or the newest that is whole. Raises UserError for a damaged one where there is no other."""
    if step is None:
        return newest_whole(folder / "checkpoints")
    checkpoint = folder.checkpoint(step)
    if checkpoint is not None:
        check_whole(checkpoint)
    return checkpoint


def load_weights(checkpoint: Path, policy: Policy) -> None:
    """Takes over the weights of a checkpoint: those of the adapters if the policy has some, as all else is frozen."""
    if adapters(policy):
        set_adapters(policy, load_file(checkpoint / ADAPTERS))
    else:
        policy.load(checkpoint)


def load_optimizer(checkpoint: Path, optimizer: torch.optim.Optimizer, progress: Progress) -> None:
    """Restores the optimiser's moments and step counts; its settings stay those of the configuration.

    Raises ValueError for moments that no training leaves, and for a parameter that has lost its own: without them it
    would learn another thing.
    """
    state: dict[int, dict[str, Tensor]] = {}
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for key, tensor in load_file(checkpoint / OPTIMIZER).items():
        number, name = key.split(".")
        if tensor.shape not in ((), parameters[int(number)].shape) or not tensor.isfinite().all():
            raise ValueError(f"{OPTIMIZER}: {key} is no moment of a parameter")
        if name == "exp_avg_sq" and (tensor < 0).any():
            raise ValueError(f"{OPTIMIZER}: {key} holds negative squares")
        state.setdefault(int(number), {})[name] = sharded_as(tensor, parameters[int(number)])
    is_begun = progress.updates > progress.updates_skipped
    moved = [*range(len(parameters) if is_begun else 0)]
    if has_manifest(checkpoint):  # then a parameter that lacks had no gradient: an expert that no token chose
        moved = [*state]
    for number in moved:
        if lacking := _MOMENTS - state.get(number, {}).keys():
            raise ValueError(f"{OPTIMIZER}: parameter {number} has no {', '.join(sorted(lacking))}")
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _flatten(optimizer: torch.optim.Optimizer, keep: bool) -> dict[str, Tensor]:
    """Whole tensors by name, on the CPU where they were sharded; none, not even copied, unless they are to be kept."""
    state = optimizer.state_dict()["state"]
    named = ((f"{number}.{name}", tensor) for number, values in state.items() for name, tensor in values.items())
    gathered = ((name, tensor, whole(tensor)) for name, tensor in named)
    return {
        name: (tensor if tensor is every_part else every_part.cpu()).contiguous()
        for name, tensor, every_part in gathered
        if keep
    }
