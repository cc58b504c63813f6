"""A cell at its end, as a measure asks it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rlzoo.rollout.base import Sampling
from rlzoo.rollout.sampler import GradedRollouts
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
