"""What objectives cost: planning and loss of every recipe as a share of a training step, and current statistics.

    python -m benchmarks.speed.objective_overhead [CONFIG.yaml | key=value ...]      (default: configs/smollm2.yaml)

One step of the configuration is sampled and timed with `justrl`. On its rollouts every recipe then prepares, plans, and
takes the gradient of its loss by log-prob, as often as it does in a step; everything between the policy's statistics
and their gradients is in these seconds, metrics included. Prints a Markdown table.
"""

import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import torch

from benchmarks.gpu.probe import finish, seconds
from objectives import Loop, Objective, TokenBatch, names, parse, with_examples
from rlzoo.config import load_config
from rlzoo.experiment.check import check
from rlzoo.experiment.machine import environment
from rlzoo.model.accelerator import make_accelerator
from rlzoo.training.rows import StepMetrics
from rlzoo.training.run import RunFolder, load_trainer
from rlzoo.training.step import StepRollouts, Trainer

REPETITIONS = 40


def objective_work(trainer: Trainer, objective: Objective, collected: StepRollouts, batch: TokenBatch) -> None:
    """All that an objective adds to a step with one mini-batch per pass: no forward or backward of the model."""
    step, device = Loop(objective).begin(batch), trainer.accelerator.device
    metrics, every = StepMetrics(objective, collected.rollouts, device), torch.arange(len(collected.rank))
    for number in range(len(step.rows)):
        plan = step.plan(number)
        metrics.add_plan(plan, every, every)
        for part in trainer.passes.micro_batches(collected.rollouts, every, every):
            there, width = part.to(device), int(collected.rollouts.lengths[part].max())
            rows = plan.rows(there, width)
            logp = batch.require("logp_old", "the loss")[there][:, :width].clone().requires_grad_()
            loss = objective.loss(rows, slice(None), logp, rows.batch.entropy)
            loss.backward()
            metrics.add_rows(rows, part, logp.detach(), loss.detach())
    metrics.metrics(trainer.accelerator)


def recipes() -> list[Objective]:
    """Those of the zoo, with examples of what nobody has published a value for."""
    return [parse(with_examples(name)) for name in names() if name.kind == "recipe"]


def main(words: list[str]) -> None:
    """Measures and prints."""
    with tempfile.TemporaryDirectory() as folder:
        config = load_config([*(words or ["configs/smollm2.yaml"]), "objective=justrl", f"output={folder}/run"])
        experiment = check(config)
        with load_trainer(experiment, make_accelerator(config.model.precision), RunFolder(Path(folder))) as trainer:
            trainer.step()
            started = time.perf_counter()
            _, collected = trainer.step()
            step = time.perf_counter() - started
            phases = ", ".join(f"{name} {value:.2f} s" for name, value in trainer.seconds.items())
            started = time.perf_counter()
            every = torch.arange(len(collected.rank))
            logp, entropy, _ = trainer.passes.statistics(
                trainer.policy, collected.rollouts, every, every, with_entropy=True
            )
            finish()
            forward = time.perf_counter() - started
            fields = dict.fromkeys(("logp_old", "logp", "logp_ref", "logp_teacher"), logp)
            fields |= {"entropy_old": entropy, "entropy": entropy, "turn_reward": torch.zeros_like(logp)}
            fields |= {"sum_pi_squared_old": logp.exp().square(), "logp_prompt": logp.mean(1)}
            fields |= dict.fromkeys(("turn", "turn_state"), torch.zeros_like(logp, dtype=torch.long))
            numbers = trainer.micro_batch_numbers(collected, every)
            batch = collected.batch.with_fields(**fields, micro_batch=numbers)
            machine = environment()
            print(f"{config.model.name}, {len(logp)} rollouts of up to {logp.shape[1]} tokens, one update a step;")
            print(f"commit {machine['commit']}, {machine['accelerator'] or machine['processor']}\n")
            print(
                f"A step of justrl: {step:.2f} s ({phases}).\n"
                f"Current statistics, where needed: {forward:.2f} s, {forward / step:.0%} of it.\n"
            )
            print("| recipe | planning and loss (ms) | share of a step | current statistics needed |")
            print("|---|---|---|---|")
            for objective in recipes():
                work = partial(objective_work, trainer, objective, collected, batch)
                cost = seconds(work, REPETITIONS, warm=0, of=min)  # the one that nothing beside it has lengthened
                needed = "once the policy has moved" if objective.reads_current else "no"
                print(f"| {objective} | {1000 * cost:.1f} | {cost / step:.2%} | {needed} |")


if __name__ == "__main__":
    main(sys.argv[1:])
