"""Run by test_ranks.py in one process and in two: the gradients of every objective on the same rollouts.

`python -m tests.rank_gradients MODEL OUTPUT`, or the same under `accelerate launch`.
"""

import json
import sys
from itertools import permutations
from pathlib import Path

import torch
from accelerate import Accelerator
from safetensors.torch import save_file
from torch import Tensor

from objectives import TokenBatch, names, parse
from rlzoo.collect import Collected
from rlzoo.config import load_config
from rlzoo.experiment import check
from rlzoo.policy import Policy, load_policy
from rlzoo.rollout.base import Rollouts
from rlzoo.tally import Tally
from rlzoo.trainer import Trainer

GROUPS, SIZE, LENGTH = 6, 4, 9
RECIPES = [name for name in names() if name.kind == "recipe"]
EXPRESSIONS = [
    *(f"{name.name}(variant={variant})" for name in RECIPES for variant in name.variants),
    *(name.name for name in names() if name.kind == "part"),
    *(f"{a.name}+{b.name}" for a, b in permutations(RECIPES, 2)),
]
WORDS = (
    "rollout.responses_per_prompt=4",
    "train.minibatches_per_step=2",
    "train.tokens_per_micro_batch=60",
    "task.problems=8",
    "evaluation.problems=1",
)


def rollouts() -> tuple[Rollouts, TokenBatch]:
    """The same ragged random rollouts in every process."""
    generator = torch.Generator().manual_seed(0)
    n = GROUPS * SIZE
    lengths = torch.randint(1, LENGTH + 1, (n,), generator=generator)
    mask = torch.arange(LENGTH) < lengths[:, None]
    tokens = torch.randint(0, 12, (n, LENGTH), generator=generator).where(mask, 0)
    correct = torch.rand(n, generator=generator).round()
    correct[::SIZE], correct[1::SIZE] = 0.0, 1.0
    group = torch.arange(n) // SIZE
    prompts = [list(range(i, i + 3 + i % 3)) for i in range(GROUPS)]
    logp = torch.randn(n, LENGTH, generator=generator).abs().neg().where(mask, 0.0)
    sampled = Rollouts(prompts, group, tokens, mask, logp, logp.neg(), lengths == LENGTH)
    batch = TokenBatch(
        mask=mask,
        group=group,
        reward=correct,
        correct=correct,
        truncated=sampled.truncated,
        max_length=LENGTH,
        logp_sampler=logp,
    )
    return sampled, batch


def main(model: str, output: Path) -> None:
    """Writes every accumulated gradient and the metrics."""
    torch.set_default_dtype(torch.float64)
    accelerator = Accelerator(cpu=True)
    sampled, batch = rollouts()
    here = torch.arange(len(batch.mask)).tensor_split(accelerator.num_processes)[accelerator.process_index]
    collected = Collected(batch, sampled.rows(here), here, [], 0, {}, {})
    experiment = check(load_config([f"model.name={model}", "objective=grpo", *WORDS]))
    policy = load_policy(experiment.config.model, experiment.tokenizer).double()
    with torch.no_grad():
        policy.model.get_output_embeddings().weight *= 30  # so that some tokens are probable
    reference, old, moved = policy.frozen_copy(), policy.frozen_copy(), policy.frozen_copy()
    _add_noise(reference, seed=1)
    _add_noise(moved, seed=2)
    trainer = Recording(experiment, accelerator, policy, reference, sampler=None)
    gradients: dict[str, Tensor] = {}
    metrics = {}
    for expression in EXPRESSIONS:
        trainer.objective, trainer.gradients = parse(expression), []
        policy.load_state_dict(old.state_dict())
        prepared = trainer.objective.prepare(trainer._scored(collected))
        policy.load_state_dict(moved.state_dict())
        tally = Tally(trainer.objective, collected.rollouts)
        for update in trainer.objective.passes(prepared):
            for rows in trainer._minibatches(update):
                trainer._update(collected, update.rows(rows), rows, True, tally)
        gradients |= {f"{expression} update {i}": gradient for i, gradient in enumerate(trainer.gradients)}
        metrics[expression] = tally.metrics(accelerator)
    if accelerator.is_main_process:
        save_file(gradients, output)
        output.with_suffix(".json").write_text(json.dumps(metrics))


def _add_noise(policy: Policy, seed: int) -> None:
    noise = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += 0.01 * torch.randn(parameter.shape, generator=noise)


class Recording(Trainer):
    """Keeps the gradients of its updates instead of following them."""

    gradients: list[Tensor]

    def _take_step(self, tally: Tally) -> bool:
        self.gradients.append(torch.cat([p.grad.flatten() for p in self.policy.parameters() if p.grad is not None]))
        self.optimizer.zero_grad()
        return True


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
