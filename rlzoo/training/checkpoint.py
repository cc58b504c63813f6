"""Checkpoints: a Hugging Face model folder and what training resumes from, bitwise; and the models of a run."""

import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import monotonic

import torch
from accelerate.utils import gather_object
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from rlzoo.config.sections import CheckpointConfig
from rlzoo.errors import UserError
from rlzoo.experiment.experiment import Experiment
from rlzoo.experiment.progress import (
    ADAPTERS,
    OPTIMIZER,
    PROGRESS,
    Progress,
    check_whole,
    checkpoints,
    damage,
    newest_whole,
    readable,
)
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import folder_written_atomically, write_json
from rlzoo.model.accelerator import broadcast_from_main
from rlzoo.model.lora import adapters, add_adapters, set_adapters
from rlzoo.model.policy import Policy, load_policy
from rlzoo.model.pretrained import INITIAL, POLICY, Pretrained, errors_naming, write_manifest
from rlzoo.model.sharded_loading import fill, load_shared_out
from rlzoo.model.sharding import (
    Sharding,
    full_tensor,
    is_sharded,
    resharded,
    saved_rows,
    sharded_as,
)
from rlzoo.rollout.base import checkpoint_weights

MOMENTS = ("exp_avg", "exp_avg_sq")
"""Means of gradients and of their squares, which AdamW keeps of a parameter beside its count of steps."""


class CheckpointTimes:
    """When checkpoints are due: by the step, and by the main process's clock, which decides nothing else."""

    def __init__(self, asked: CheckpointConfig, last_step: int) -> None:
        self.asked, self.last_step, self.saved_at = asked, last_step, monotonic()

    def is_due(self, step: int) -> bool:
        """Whether one is due after a step. All processes ask together."""
        every, minutes = self.asked.every, self.asked.minutes
        if step == self.last_step or (every and step % every == 0):
            return True
        return minutes > 0 and broadcast_from_main(monotonic() - self.saved_at >= 60 * minutes)

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
    sampled: Mapping[str, Mapping[str, Tensor]] | None = None,
) -> Path:
    """Writes `folder/step-NNNNNN`, whole or not at all, then removes all but the newest `keep`.

    If the policy is sharded, all processes must call it together, and the one that `writes` gathers all weights and
    moments in the machine's memory. What is `sampled` already of the steps that come is kept with it, by the file's
    name.
    """
    final = folder / f"step-{progress.step:06d}"
    writes = writes and not (final.is_dir() and not damage(final))  # what was saved is not touched again
    weights = None
    if is_sharded(policy):
        weights = _gathered(checkpoint_weights(resharded(policy).model), writes)
    moments = _gathered(_moments(optimizer), writes) if is_sharded(policy) else None
    if not writes:
        return final
    with folder_written_atomically(final) as partial:
        policy.save(partial, weights)
        del weights
        write_json(partial / PROGRESS, asdict(progress))
        if moments is None:  # copied once the weights are written, for the machine's memory
            moments = _gathered(_moments(optimizer), writes)
        save_file(moments, partial / OPTIMIZER)
        if trained := adapters(policy):
            save_file(trained, partial / ADAPTERS)
        for name, tensors in (sampled or {}).items():
            save_file(dict(tensors), partial / name)
        write_manifest(partial, progress.step)
    for old in checkpoints(folder)[:-keep]:
        shutil.rmtree(old)
    return final


def _gathered(tensors: Iterable[tuple[str, Tensor]], keeps: bool) -> dict[str, Tensor]:
    """Tensors whole on the CPU; nothing where another process keeps them, which gathers them from all."""
    kept = {}
    for name, tensor in tensors:
        whole = full_tensor(tensor.detach())
        if keeps:
            kept[name] = whole.cpu().contiguous()
    return kept


def _moments(optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, Tensor]]:
    """By the number of the parameter and what the optimiser calls it."""
    for number, values in optimizer.state_dict()["state"].items():
        yield from ((f"{number}.{name}", tensor) for name, tensor in values.items())


def _parameters(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def checkpoint_of_all(folder: RunFolder, step: int | None) -> Path | None:
    """The checkpoint that all processes find. Raises UserError for a damaged one, and if they find different ones."""
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
    """The checkpoint of a step, or the newest whole one. Raises UserError if all are damaged."""
    if step is None:
        return newest_whole(folder / "checkpoints")
    checkpoint = folder.checkpoint(step)
    if checkpoint is not None:
        check_whole(checkpoint)
    return checkpoint


def load_weights(checkpoint: Path, policy: Policy) -> None:
    """Takes over the weights of a checkpoint: those of the adapters if the policy has some, as all else is frozen.

    Of a sharded policy all processes must do so together, and each reads its part alone.
    """
    if adapters(policy):
        set_adapters(policy, load_file(checkpoint / ADAPTERS))
    elif is_sharded(policy):
        fill(policy, Pretrained(str(checkpoint), {}))
    else:
        policy.load(checkpoint)


def load_optimizer(checkpoint: Path, optimizer: torch.optim.Optimizer) -> None:
    """Restores the optimiser's moments and step counts; its settings stay those of the configuration.

    Of sharded parameters each process reads its rows alone. Raises ValueError on all of them for moments that no
    training leaves. A parameter without any had no gradient: an expert that no token chose.
    """
    with safe_open(checkpoint / OPTIMIZER, "pt") as file:
        shapes = {key: tuple(file.get_slice(key).get_shape()) for key in file.keys()}  # noqa: SIM118 (no mapping)
    state: dict[int, dict[str, Tensor]] = {}
    wrong: list[str] = []
    parameters = _parameters(optimizer)
    for key, shape in shapes.items():
        number, name = key.split(".", 1)
        parameter = parameters[int(number)]
        like = parameter if shape else torch.empty(())  # counts of steps are whole everywhere
        try:
            moment = _moment(checkpoint / OPTIMIZER, key, shape, like)
            state.setdefault(int(number), {})[name] = sharded_as(moment.to(like.device, copy=True), like)
        except ValueError as error:
            wrong.append(str(error))
    if everywhere := sorted(gather_object(wrong)):
        raise ValueError(everywhere[0])
    for number, held in state.items():
        if lacking := {"step", *MOMENTS} - held.keys():
            raise ValueError(f"{OPTIMIZER}: parameter {number} has no {', '.join(sorted(lacking))}")
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _moment(path: Path, key: str, shape: tuple[int, ...], like: Tensor) -> Tensor:
    """The rows of a saved moment that this process has."""
    rows = saved_rows(path, key, like) if shape == like.shape else None
    if rows is None or rows.dtype != like.dtype or not rows.isfinite().all():
        raise ValueError(f"{OPTIMIZER}: {key} is no moment of a parameter")
    if key.endswith(".exp_avg_sq") and (rows < 0).any():
        raise ValueError(f"{OPTIMIZER}: {key} holds negative squares")
    return rows


# ---- the models of a run -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Models:
    """On the device: the policy, and the reference and the teacher where they have weights of their own."""

    policy: Policy
    reference: Policy | None
    teacher: Policy | None


def load_models(
    experiment: Experiment,
    needs: frozenset[str],
    checkpoint: Path | None,
    device: torch.device,
    sharding: Sharding | None = None,
) -> Models:
    """The policy at a checkpoint, if there is one, and what the fields `needs` are scored by.

    Sharded models are never whole on any process, and all processes must load them together.
    """
    config, tokenizer = experiment.config.model, experiment.tokenizer
    policy = load_shared_out(config, tokenizer, device, sharding) if sharding else load_policy(config, tokenizer)
    if config.lora.rank:
        add_adapters(policy.model, config.lora)

    def frozen(name: str) -> Policy:
        """A model that does not learn; `initial` is the policy before its checkpoint."""
        named = config if name == INITIAL else replace(config, name=name, revision=None)
        if sharding:
            return load_shared_out(named, tokenizer, device, sharding, learns=False)
        return (policy if name == INITIAL else load_policy(named, tokenizer)).frozen_copy().to(device)

    reference, teacher = None, None
    if "logp_ref" in needs:
        with errors_naming("model.reference"):
            reference = frozen(config.reference)
    if "logp_teacher" in needs and config.teacher != POLICY:
        with errors_naming("model.teacher"):
            teacher = frozen(config.teacher)
    if checkpoint is not None:
        with readable(checkpoint):
            load_weights(checkpoint, policy)
    models = Models(policy if sharding else policy.to(device), reference, teacher)
    if config.compile:
        for model in filter(None, (models.policy, reference, teacher)):
            model.compile_layers()
    return models
