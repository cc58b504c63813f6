"""Run by test_ranks.py in one process and in two: a few steps of the embedded default with several objectives.

`python -m tests.training.rank_runs FOLDER SHARDING [STEPS]`, or the same under torchrun.
"""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from accelerate import Accelerator
from torch import Tensor
from torch.distributed.tensor import DTensor

from objectives import TokenBatch
from objectives.parts import advantages
from rlzoo.config import load_config
from rlzoo.experiment.check import check
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.model.accelerator import make_accelerator
from rlzoo.model.sharding import resharded, whole_parameters
from rlzoo.rollout.base import checkpoint_weights
from rlzoo.training.run import load_trainer
from rlzoo.training.step import Trainer

REWARDS = """
def right(response, gold, **columns):
    return float(response.rpartition(")")[2] == gold)

def short(response, **columns):
    return -len(response) / 10
"""
SEVERAL = "gdpo+dynamic_sampling_by_reward"
"""An objective that reads the above one by one; the others have the task's own reward."""
LOCAL = "reinforce_pp of local means"
"""The run with a mistake that two processes must not make as one."""
OBJECTIVES: dict[str, str] = {
    "stapo(tau_p=0.2)": "s2t",
    "dapo": "",
    "lopti": "lopti",
    "stare(adaptive=true,target_entropy=0.5,fraction=1)": "surprisal_reweighting",
    "otb": "",
    SEVERAL: "",
    "gspo": "clip",
    "grpo+entropy_advantage": "",
    "clip_cov(fraction=0.05,low=0.1)": "clip_cov",
    "kl_cov(fraction=1)": "cov_penalty",
    "grpo+sampler_correction": "sampler_correction",
    "grpo+adaptive_entropy(start=0.003,target_entropy=0.5)": "",
    "reinforce_pp": "kl_reward",
    "advantage_reweighting": "advantage_reweighting",
    "dr_grpo": "",
}
"""Expression -> a part that has to touch tokens, where such are counted.

Equal prefixes have equal entropies, surprisals and covariances, which two processes round otherwise: so STARE and
KL-Cov take all tokens here; rank_gradients.py, where values differ, has their shares.
"""
NOISE = "rollout.noise=0.1"
FURTHER = {
    SEVERAL: ["task.reward=[{folder}/rewards.py:right,{folder}/rewards.py:short]"],
    "grpo+sampler_correction": [NOISE],
    "dr_grpo": ["rollout.partial_tokens=4"],
}
"""Expression -> further words."""
STEPS = 4
WORDS = (
    "rollout.prompts_per_step=6",  # so that two processes sample unequal shares of a mini-batch
    "rollout.responses_per_prompt=4",
    "rollout.max_refills=50",
    "train.minibatches_per_step=2",
    "train.tokens_per_micro_batch=200",
    "train.learning_rate=1e-4",
    "evaluation.problems=4",
    "evaluation.samples=2",
)


def main(folder: Path, sharding: str, steps: int = STEPS) -> None:
    """Writes, for each objective, the metrics of every step and what was sampled in it."""
    accelerator = make_accelerator("float32")
    if accelerator.is_main_process:
        (folder / "rewards.py").write_text(REWARDS)
    accelerator.wait_for_everyone()

    def trained(objective: str, steps: int) -> list[dict[str, Any]]:
        further = [word.format(folder=folder) for word in FURTHER.get(objective, [])]
        own = [f"objective={objective}", f"output={folder / 'run'}", f"train.sharding={sharding}"]
        experiment = check(load_config([*WORDS, *own, *further]))
        with load_trainer(experiment, accelerator, RunFolder(folder / "run")) as trainer:
            return [one_step(trainer) for _ in range(steps)]

    runs = {objective: trained(objective, steps) for objective in OBJECTIVES}
    mean = partial(local_mean, accelerator, advantages._whitened)
    with patch.object(advantages, "_whitened", mean):
        runs[LOCAL] = trained("reinforce_pp", steps=1)
    if accelerator.is_main_process:
        (folder / f"{accelerator.num_processes}-{sharding}.json").write_text(json.dumps(runs))
    accelerator.end_training()


def one_step(trainer: Trainer) -> dict[str, Any]:
    """Its metrics, what was sampled, and the weights behind it."""
    metrics, collected = trainer.step()
    longest = trainer.accelerator.gather(collected.examples[0].rollouts.lengths.max())
    return {
        "metrics": metrics,
        "tokens": collected.rollouts.tokens.tolist(),
        "rounds": len(collected.examples),
        "longest": longest.flatten().tolist(),
        "handed_over": handed_over(trainer),
        "weights_here": sum(map(local_size, trainer.policy.parameters())),
    }


def local_mean(
    accelerator: Accelerator, whitened: Callable[..., Tensor], batch: TokenBatch, *arguments: Any, **options: Any
) -> Tensor:
    """A mistake on purpose: mean and deviation are those of every k-th group, of k processes."""
    here = batch.require("group", "test") % accelerator.num_processes == accelerator.process_index
    return whitened(batch.with_fields(mask=batch.mask & here[:, None]), *arguments, **options)


def handed_over(trainer: Trainer) -> list[str]:
    """The weights of the engine that equal the policy's, and of those that vLLM would get; all processes together."""
    policy = resharded(trainer.accelerator.unwrap_model(trainer.policy))
    own = dict(trainer.engine.policy.named_parameters(remove_duplicate=False))  # type: ignore[attr-defined]
    same = [name for name, weight in whole_parameters(policy) if torch.equal(own[name], weight)]
    to_vllm = checkpoint_weights(policy.model, {"lm_head.weight"})
    return same + [name for name, weight in to_vllm if torch.equal(own[f"model.{name}"], weight)]


def local_size(parameter: torch.Tensor) -> int:
    """How many of its numbers are held here."""
    return parameter.to_local().numel() if isinstance(parameter, DTensor) else parameter.numel()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))
