"""Updates through the real trainer, on rollouts made here: on the pretended device or without one."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rlzoo.config import load_config
from rlzoo.experiment.check import check
from rlzoo.model.accelerator import make_accelerator
from rlzoo.model.policy import Policy, load_policy
from rlzoo.training.rows import ForwardPasses
from rlzoo.training.step import StepRollouts
from tests.training.recording import Recording, collected_by, rollouts, with_noise

WORDS = (
    "objective=grpo",
    "rollout.responses_per_prompt=4",
    "train.minibatches_per_step=2",
    "train.tokens_per_micro_batch=30",
    "task.problems=8",
    "evaluation.problems=1",
)

Step = tuple[StepRollouts, Policy, Policy]
"""The rollouts of a step, and the policy's weights before and after they moved."""


Statistics = tuple[Tensor | None, ...]
"""[N, T] log-probs, entropies and sums of squares, as one scoring returns them."""


class Counting(Recording):
    """Counts micro-batches, and how often the host waits for them, by phase; keeps what each scoring measured."""

    machine: Any = None
    measured: list[Statistics]
    given: Iterator[Statistics] | None

    def begin(self, machine: Any, given: Sequence[Statistics] | None = None) -> None:
        """Counts from here on; with `given`, updates are planned with these statistics in place of those measured."""
        self.machine, self.waits, self.micro_batches = machine, Counter[str](), Counter[str]()
        self.measured, self.given = [], None if given is None else iter(given)

    def watch(self) -> None:
        """From now on, forward passes are counted."""
        passes, kind = self.passes, ForwardPasses

        def counted(policy: Any, rollouts: Any, rows: Tensor, phase: str, *given: Any, **options: Any) -> Any:
            self.micro_batches[phase] += 1
            return kind.forward(passes, policy, rollouts, rows, phase, *given, **options)

        def measured(*arguments: Any, **options: Any) -> Any:
            self.measured.append(self._count("score", kind.statistics, passes, *arguments, **options))
            return self.measured[-1] if self.given is None else next(self.given)

        passes.forward, passes.statistics = counted, measured  # type: ignore[method-assign]

    def _differentiate(self, *arguments: Any) -> None:
        self._count("train", super()._differentiate, *arguments)

    def _count(self, phase: str, function: Any, *arguments: Any, **options: Any) -> Any:
        before = self.machine.syncs.total() if self.machine else 0
        result = function(*arguments, **options)
        self.waits[phase] += (self.machine.syncs.total() if self.machine else 0) - before
        return result


def counting(model: Path, *words: str) -> tuple[Counting, Step]:
    """A trainer on whatever device there is, and a step for it."""
    experiment = check(load_config([f"model.name={model}", *WORDS, *words]))
    accelerator = make_accelerator(experiment.config.model.precision)
    policy = load_policy(experiment.config.model, experiment.tokenizer)
    with torch.no_grad():
        policy.model.get_output_embeddings().weight *= 30  # so that some tokens are probable
    old, moved, reference = (with_noise(policy, seed).to(accelerator.device) for seed in range(3))
    sampled, batch = rollouts()
    there = {name: tensor.to(accelerator.device) for name, tensor in batch.tensors().items()}
    trainer = Counting(
        experiment, accelerator, policy.to(accelerator.device), reference, sampler=None, teacher=reference
    )
    trainer.watch()
    trainer.begin(None)
    return trainer, (collected_by(sampled, batch.with_fields(**there)), old, moved)
