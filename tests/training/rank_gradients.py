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

from rlzoo.config import load_config
from rlzoo.experiment.experiment import check
from rlzoo.model.policy import load_policy
from rlzoo.rollout.base import Rollouts
from rlzoo.training.collect import Collected
from rlzoo.training.trainer import Trainer
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
    groups = batch.group % accelerator.num_processes == accelerator.process_index
    collected = collected_by(sampled, batch, groups.nonzero()[:, 0])
    experiment = check(load_config([f"model.name={model}", "objective=grpo", *WORDS]))
    policy = load_policy(experiment.config.model, experiment.tokenizer).double()
    with torch.no_grad():
        policy.model.get_output_embeddings().weight *= 30  # so that some tokens are probable
    old, moved, reference, teacher = (with_noise(policy, seed) for seed in range(4))
    trainer = Recording(experiment, accelerator, policy, reference, sampler=None, teacher=teacher)
    dealt = redealt(collected, sampled, trainer)
    gradients: dict[str, Tensor] = {}
    metrics = {}
    for expression in EXPRESSIONS[::every]:
        metrics[expression] = trainer.record(expression, dealt, old, moved)
        gradients |= {f"{expression} update {i}": gradient for i, gradient in enumerate(trainer.gradients)}
    tokens = [int(part.rollouts.lengths.sum()) for part in (collected, dealt)]
    everyone = accelerator.gather(torch.tensor(tokens)).view(-1, 2).T.tolist()
    if accelerator.is_main_process:
        save_file(gradients, output)
        written = {
            "processes": accelerator.num_processes,
            "tokens": dict(zip(("before", "after"), everyone, strict=True)),
            **metrics,
        }
        output.with_suffix(".json").write_text(json.dumps(written))


def redealt(collected: Collected, sampled: Rollouts, trainer: Trainer) -> Collected:
    """What the processes are to train, groups split among them; it is what all of them sampled, in the rows said."""
    informed = [[*prompt, 1] for prompt in sampled.prompts]
    dealt = trainer._redistributed(replace(collected, teacher_prompts=informed))
    rows = sampled.rows(dealt.share.batch)
    for name, values in rows.tensors().items():
        assert name == "prompt" or torch.equal(getattr(dealt.rollouts, name), values), name
    assert dealt.rollouts.prompt_tokens() == rows.prompt_tokens() and dealt.teacher_prompts is not None
    assert [dealt.teacher_prompts[number] for number in dealt.rollouts.prompt] == [
        informed[number] for number in rows.prompt
    ]
    return replace(dealt, teacher_prompts=None)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
