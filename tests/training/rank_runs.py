"""Run by test_ranks.py in one process and in two: a few steps of the embedded default with several objectives.

`python -m tests.training.rank_runs FOLDER SHARDING [STEPS]`, or the same under torchrun.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from rlzoo.config import load_config
from rlzoo.experiment.experiment import check
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.model.accelerator import make_accelerator
from rlzoo.model.sharding import resharded, whole_parameters
from rlzoo.rollout.handover import checkpoint_weights
from rlzoo.training.run import load_trainer
from rlzoo.training.trainer import Trainer

REWARDS = """
def right(response, gold, **columns):
    return float(response.endswith(f"={gold}"))

def short(response, **columns):
    return -len(response) / 10
"""
SEVERAL = "gdpo+dynamic_sampling_by_reward"
"""An objective that reads the above one by one; the others have the task's own reward."""
OBJECTIVES = ("stapo", "dapo", "lopti", "stare(adaptive=true)", "otb", SEVERAL)
STEPS = 4
WORDS = (
    "rollout.prompts_per_step=6",  # so that no two processes have equal shares of a mini-batch
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
    runs: dict[str, list[dict[str, Any]]] = {}
    for objective in OBJECTIVES:
        words = [*WORDS, f"objective={objective}", f"output={folder / 'run'}", f"train.sharding={sharding}"]
        if objective == SEVERAL:
            words.append(f"task.reward=[{folder / 'rewards.py'}:right,{folder / 'rewards.py'}:short]")
        config = load_config(words)
        with load_trainer(check(config), accelerator, RunFolder(folder / "run")) as trainer:
            runs[objective] = []
            for _ in range(steps):
                metrics, collected = trainer.step()
                tokens = collected.everywhere(accelerator, collected.rollouts.tokens)
                longest = accelerator.gather(collected.rollouts.lengths.max())
                runs[objective].append(
                    {
                        "metrics": metrics,
                        "tokens": tokens.tolist(),
                        "rounds": len(collected.examples),
                        "longest": longest.flatten().tolist(),
                        "handed_over": handed_over(trainer),
                        "weights_here": sum(map(local_size, trainer.policy.parameters())),
                    }
                )
    if accelerator.is_main_process:
        (folder / f"{accelerator.num_processes}-{sharding}.json").write_text(json.dumps(runs))
    accelerator.end_training()


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
