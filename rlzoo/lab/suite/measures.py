"""A cell at its end, and what several experiments measure on it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlzoo.rollout.base import Sampling
from rlzoo.rollout.sampler import GradedRollouts
from rlzoo.statistics.aggregates import pass_at_k
from rlzoo.tasks.base import Problem
from rlzoo.training.step import Trainer

_EVALUATION_SEED = 987_654_321
"""No seed of training."""


@dataclass(frozen=True)
class Trained:
    """A cell at its end."""

    trainer: Trainer
    metrics: Sequence[Mapping[str, float]]
    """Of every step, as a run's metrics.jsonl has them."""
    rollouts: Sequence[GradedRollouts]
    """What every step was trained on."""

    def sample(self, samples: int = 4, problems: Sequence[Problem] | None = None) -> GradedRollouts:
        """Graded responses of the trained policy, at temperature 1, to held-out problems or to these."""
        trainer = self.trainer
        return trainer.sampler(
            trainer.experiment.held_out if problems is None else problems,
            samples,
            Sampling(trainer.config.rollout.max_response_tokens, 1.0),
            seed=_EVALUATION_SEED,
        )


def truly_right(cell: Trained, graded: GradedRollouts) -> list[bool]:
    """Of each response, by the task itself: grades may be wrong on purpose. A response that was cut is not right."""
    task: Any = cell.trainer.experiment.task
    cut = graded.rollouts.truncated.tolist()
    return [not cut[row] and task.right(graded.problem_of(row), text) for row, text in enumerate(graded.texts)]


def true_accuracy(cell: Trained, steps: Sequence[GradedRollouts]) -> float:
    """The share of right responses, by the truth."""
    right = [answer for step in steps for answer in truly_right(cell, step)]
    return sum(right) / len(right)


def mean_entropy(graded: GradedRollouts) -> float:
    """Of the distributions that tokens were drawn from, in nats per token."""
    return float(graded.rollouts.entropy.sum() / graded.rollouts.mask.sum())


def accuracy_at_the_end(cell: Trained) -> Mapping[str, float]:
    """The share of right answers to held-out problems, by the truth, and the entropy in nats per token."""
    end = cell.sample()
    return {"accuracy": true_accuracy(cell, [end]), "entropy": mean_entropy(end)}


def accuracy_of_the_last_steps(cell: Trained) -> Mapping[str, float]:
    """The share of right answers, by the truth, in the rollouts of the last five steps, and their entropy."""
    steps = cell.rollouts[-5:]
    return {
        "accuracy": true_accuracy(cell, steps),
        "entropy": sum(map(mean_entropy, steps)) / len(steps),
    }


def pass_at(k: int, right: Sequence[bool], samples: int) -> float:
    """`pass_at_k` over problems; `right` says it of `samples` responses to each, side by side."""
    return float(pass_at_k(np.reshape(right, (-1, samples)), k).mean())
