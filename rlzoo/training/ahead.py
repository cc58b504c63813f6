"""Rollouts that are sampled one step ahead, by the policy before the updates that are made meanwhile.

At the end of step k the policy is P(k), and the rollouts that step k + 1 trains on lie ready, sampled by P(k - 1); the
first step's are P(0)'s. A checkpoint keeps them, by problem and whatever the number of processes, so that a resumed run
trains on the very same; graded they are again. The last step samples ahead too: a finished run may be given more steps.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path

import torch
from accelerate import Accelerator
from safetensors.torch import load_file
from torch import Tensor

from rlzoo.config import RolloutConfig
from rlzoo.experiment.experiment import Experiment
from rlzoo.experiment.progress import AHEAD, Progress
from rlzoo.rollout.base import Rollouts, widened
from rlzoo.rollout.sampler import Environment, GradedRollouts
from rlzoo.training.collect import Dealt


def first_round(rollout: RolloutConfig, problems_used: int, accelerator: Accelerator) -> Dealt:
    """What this process samples first in a step."""
    return Dealt(problems_used, rollout.prompts_per_step, accelerator.process_index, accelerator.num_processes)


def begun(sample: Callable[[], GradedRollouts], apart: bool) -> Future[GradedRollouts]:
    """What will have been sampled: beside whatever comes next if that is done `apart` from it, else here and now."""
    if apart:
        thread = ThreadPoolExecutor(1, "rollouts")
        future = thread.submit(sample)
        thread.shutdown(wait=False)
    else:
        future = Future()
        future.set_result(sample())
    return future


def of_all_processes(rollouts: Rollouts, config: RolloutConfig, accelerator: Accelerator) -> dict[str, Tensor]:
    """A first round of rollouts [N] by problem, on the CPU of every process; `prompt` counts from the first problem."""
    part, device = first_round(config, 0, accelerator), accelerator.device
    width = int(accelerator.gather(torch.tensor([rollouts.mask.shape[1]], device=device)).max())
    local = {**rollouts.tensors(), "prompt": torch.tensor(part.numbers)[rollouts.prompt]}
    gathered = {
        name: accelerator.gather(widened(tensor, width).to(device).contiguous()).cpu() for name, tensor in local.items()
    }
    order = gathered["prompt"].argsort(stable=True)
    order = order[gathered["prompt"][order] < part.count]
    return {name: tensor[order] for name, tensor in gathered.items()}


def read_ahead(
    checkpoint: Path, experiment: Experiment, sampler: Environment, accelerator: Accelerator, progress: Progress
) -> GradedRollouts:
    """What a checkpoint has ahead, the share of this process, graded."""
    config = experiment.config.rollout
    part, size = first_round(config, progress.problems_used, accelerator), config.responses_per_prompt
    saved, problems = load_file(checkpoint / AHEAD), part.problems(experiment)
    # What makes the shares equal was not saved and is thrown away: other problems' responses stand in for it.
    rows = torch.cat([number % part.count * size + torch.arange(size) for number in part.numbers])
    tensors = {item.name: saved[item.name][rows] for item in fields(Rollouts) if item.name != "prompts"}
    tensors["prompt"] = torch.arange(len(problems)).repeat_interleave(size)
    if tensors["version"].dim() == 1:  # earlier versions of rlzoo kept one number for each response
        tensors["version"] = tensors["version"][:, None] * tensors["mask"]
    return sampler.graded(problems, Rollouts(sampler.prompts(problems), **tensors))
