"""Run by test_ranks.py in one process and in two: the gradients of every objective on the same rollouts.

`python -m tests.training.rank_gradients MODEL OUTPUT`, or the same under torchrun.
"""

import json
import sys
from pathlib import Path

import torch
from accelerate import Accelerator
from safetensors.torch import save_file
from torch import Tensor

from rlzoo.config import load_config
from rlzoo.experiment.experiment import check
from rlzoo.model.policy import load_policy
from tests.objectives.zoo_sample import SAMPLE, fitting
from tests.training.recording import Recording, collected_by, rollouts, with_noise

WORDS = (
    "rollout.responses_per_prompt=4",
    "train.minibatches_per_step=2",
    "train.tokens_per_micro_batch=60",
    "task.problems=8",
    "evaluation.problems=1",
)


EXPRESSIONS = fitting(4, SAMPLE)


def main(model: str, output: Path) -> None:
    """Writes every accumulated gradient and the metrics."""
    torch.set_default_dtype(torch.float64)
    accelerator = Accelerator(cpu=True)
    sampled, batch = rollouts()
    groups = batch.group % accelerator.num_processes == accelerator.process_index
    collected = collected_by(sampled, batch, groups.nonzero()[:, 0])
    experiment = check(load_config([f"model.name={model}", "objective=grpo", *WORDS]))
    policy = load_policy(experiment.config.model, experiment.tokenizer).double()
    with torch.no_grad():
        policy.model.get_output_embeddings().weight *= 30  # so that some tokens are probable
    old, moved, reference, teacher = (with_noise(policy, seed) for seed in range(4))
    trainer = Recording(experiment, accelerator, policy, reference, sampler=None, teacher=teacher)
    gradients: dict[str, Tensor] = {}
    metrics = {}
    for expression in EXPRESSIONS:
        metrics[expression] = trainer.record(expression, collected, old, moved)
        gradients |= {f"{expression} update {i}": gradient for i, gradient in enumerate(trainer.gradients)}
    if accelerator.is_main_process:
        save_file(gradients, output)
        output.with_suffix(".json").write_text(json.dumps({"processes": accelerator.num_processes, **metrics}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
