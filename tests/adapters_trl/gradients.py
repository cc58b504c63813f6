"""Run by test_gradients.py in one process and in two: the gradients of every recipe, TRL's trainer against ours.

`python -m tests.adapters_trl.gradients FOLDER EXPRESSION...`, or the same under torchrun;
prints a line of JSON for each.
"""

import contextlib
import io
import json
import sys
from dataclasses import replace
from pathlib import Path

import torch
from accelerate import Accelerator
from torch import Tensor

from objectives import parse, random_keys
from rlzoo.config import load_config
from rlzoo.experiment.check import check
from rlzoo.model.policy import load_policy
from rlzoo.training.rows import StepMetrics
from rlzoo.training.step import StepRollouts
from tests.adapters_trl.rig import SEED, Along, Weights, embedded, ended_rollouts, graded, settings, thirds, trainer
from tests.training.recording import Recording, collected_by

MINIBATCHES, ROWS = 2, 12
SIZES = (2, 3)
"""Rows of a micro-batch on each process."""
WORDS = (
    "model.name=embedded:sums",
    "objective=grpo",
    "rollout.responses_per_prompt=4",
    f"train.minibatches_per_step={MINIBATCHES}",
    "train.tokens_per_micro_batch=60",
    "task.problems=8",
    "evaluation.problems=1",
)


class Ours(Recording):
    """Our own trainer, which goes along the same weights; its micro-batches are numbered as TRL cuts them."""

    weights: list[Weights]
    per_device: int

    def _take_step(self, metrics: StepMetrics) -> bool:
        super()._take_step(metrics)
        model = self.accelerator.unwrap_model(self.policy).model
        model.load_state_dict(self.weights[len(self.gradients) % len(self.weights)])
        return True

    def micro_batch_numbers(self, collected: StepRollouts, rows: Tensor) -> Tensor:
        return rows // self.per_device


def noisy_weights(count: int) -> list[Weights]:
    """The embedded model's weights, each time a little changed."""
    found = []
    for seed in range(count):
        generator = torch.Generator().manual_seed(seed)
        state = embedded().state_dict()
        found.append({k: v + 0.01 * torch.randn(v.shape, generator=generator) for k, v in state.items()})
    for weights in found:
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"]  # they are one
    return found


def ours(
    objective: str, collected: StepRollouts, weights: list[Weights], reference: Weights, size: int
) -> list[Tensor]:
    """The gradients of a step's updates by our trainer."""
    experiment = check(load_config(list(WORDS)))
    policy = load_policy(experiment.config.model, experiment.tokenizer)
    frozen = policy.frozen_copy()
    policy.model.load_state_dict(weights[0])
    frozen.model.load_state_dict(reference)
    own = Ours(experiment, Accelerator(cpu=True), policy, frozen, sampler=None)
    own.objective, own.gradients, own.weights, own.per_device = parse(objective), [], weights, size
    own.learn(collected)
    return own.gradients


def theirs(objective: str, folder: Path, weights: list[Weights], reference: Weights, size: int) -> list[Tensor]:
    """The gradients of the same updates inside TRL."""
    updates = MINIBATCHES * parse(objective).pass_count
    window = ROWS // (size * Accelerator(cpu=True).num_processes)
    args = settings(folder, size, window, steps_per_generation=MINIBATCHES * window, max_steps=updates, learning_rate=0)
    along, model = Along(weights), embedded()
    model.load_state_dict(weights[0])
    graders = [graded, thirds] if "rewards" in parse(objective).needs else graded
    peer = trainer(objective, args, model, callbacks=[along], reward_funcs=graders)
    if peer.ref_model is not None:
        peer.ref_model.load_state_dict(reference)
    with contextlib.redirect_stdout(io.StringIO()):
        peer.train()
    return along.gradients


def main(folder: Path, expressions: list[str]) -> None:
    """Prints for each expression the largest relative difference by micro-batch size, and the gradients' norms."""
    torch.set_num_threads(1)
    processes = Accelerator(cpu=True)
    sampled, batch = ended_rollouts()
    first_keys = random_keys(batch.require("group", "test"), batch.mask.shape[1], SEED << 32)
    batch = batch.with_fields(random_key=first_keys)  # as the adapter draws them before any step of TRL's
    collected = replace(collected_by(sampled, batch), rank=batch.require("group", "test") % processes.num_processes)
    *weights, reference = noisy_weights(5)
    for expression in expressions:
        found = {}
        for size in SIZES:
            if size == SIZES[0] or parse(expression).reads_micro_batches:
                one = ours(expression, collected, weights, reference, size)
            other = theirs(expression, folder, weights, reference, size)
            assert len(one) == len(other), (expression, len(one), len(other))
            found[size] = max(float((a - b).norm() / a.norm()) for a, b in zip(one, other, strict=True))
        if processes.is_main_process:
            norms = [float(gradient.norm()) for gradient in one]
            measured = {"expression": expression, "differences": found, "norms": norms}
            print(json.dumps({"processes": processes.num_processes, **measured}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
