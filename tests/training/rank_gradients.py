"""Run by test_ranks.py in one process and in two: the gradients of every objective on the same rollouts.

`python -m tests.training.rank_gradients MODEL OUTPUT EVERY`, or the same under torchrun; `EVERY` 10 takes each tenth.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import torch
from accelerate import Accelerator
from safetensors.torch import save_file
from torch import Tensor

from objectives import TokenBatch
from rlzoo.config import load_config
from rlzoo.experiment.check import check
from rlzoo.model.policy import load_policy
from rlzoo.rollout.base import Rollouts
from rlzoo.training.rows import rank_of_rows
from rlzoo.training.step import StepRollouts
from tests.objectives.zoo_sample import SAMPLE, fitting
from tests.training.recording import Recording, collected_by, rollouts, with_noise

WORDS = (
    "model.share_prompts=false",  # what is shared sums gradients in a norm's float32
    "rollout.responses_per_prompt=4",
    "train.minibatches_per_step=2",
    "train.tokens_per_micro_batch=60",
    "task.problems=8",
    "evaluation.problems=1",
)


EXPRESSIONS = fitting(4, SAMPLE)


def main(model: str, output: Path, every: int) -> None:
    """Writes every accumulated gradient and the metrics."""
    torch.set_default_dtype(torch.float64)
    accelerator = Accelerator(cpu=True)
    sampled, batch = rollouts()
    experiment = check(load_config([f"model.name={model}", "objective=grpo", *WORDS]))
    policy = load_policy(experiment.config.model, experiment.tokenizer).double()
    with torch.no_grad():
        policy.model.get_output_embeddings().weight *= 30  # so that some tokens are probable
    old, moved, reference, teacher = (with_noise(policy, seed) for seed in range(4))
    trainer = Recording(experiment, accelerator, policy, reference, sampler=None, teacher=teacher)
    collected = dealt_over_ranks(sampled, batch, trainer)
    gradients: dict[str, Tensor] = {}
    metrics = {}
    for expression in EXPRESSIONS[::every]:
        metrics[expression] = trainer.record(expression, collected, old, moved)
        gradients |= {f"{expression} update {i}": gradient for i, gradient in enumerate(trainer.gradients)}
    ranks = [batch.require("group", "test") % accelerator.num_processes, collected.rank]
    tokens = [[int(sampled.lengths[of == rank].sum()) for rank in range(accelerator.num_processes)] for of in ranks]
    if accelerator.is_main_process:
        save_file(gradients, output)
        written = {
            "processes": accelerator.num_processes,
            "tokens": dict(zip(("before", "after"), tokens, strict=True)),
            **metrics,
        }
        output.with_suffix(".json").write_text(json.dumps(written))


def dealt_over_ranks(sampled: Rollouts, batch: TokenBatch, trainer: Recording) -> StepRollouts:
    """Rollouts that all ranks know; groups are split among them."""
    longest_tree = trainer.accelerator.unwrap_model(trainer.policy).longest_tree
    sizes = trainer.config.train.minibatches_per_step, trainer.accelerator.num_processes, longest_tree
    rank = rank_of_rows(trainer.objective.select(batch), sampled, *sizes)
    return replace(collected_by(sampled, batch), rank=rank)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
