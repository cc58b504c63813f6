"""What verl and prime-rl log of sampler and trainer, of our own steps: the columns of detectors that stand in."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor

from rlzoo.training import step
from rlzoo.training.rows import StepMetrics


class ObservingMetrics(StepMetrics):
    """Also compares probabilities of tokens; the divergence is the k3 that we log under another name."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.probability_differences = [torch.zeros(0, dtype=torch.float64, device=self.device)]

    def add_unmoved(self, rows: Tensor, logp: Tensor) -> None:
        """As verl does: mean over tokens of |p_trainer - p_sampler|."""
        super().add_unmoved(rows, logp)
        width = logp.shape[1]
        sampler, mask = self.rollouts.logp[rows, :width], self.rollouts.mask[rows, :width]
        difference = logp.double().exp() - sampler.to(self.device).double().exp()
        self.probability_differences.append(difference.abs()[mask.to(self.device)])

    def metrics(self, accelerator: Accelerator) -> dict[str, float]:
        """Of a single process; without both where no policy was unmoved."""
        metrics, differences = super().metrics(accelerator), torch.cat(self.probability_differences)
        if not len(differences):
            return metrics
        observed = {"sampler_kl": metrics["sampler/kl"], "sampler_probability_difference": differences.mean().item()}
        return metrics | observed


@contextmanager
def observing() -> Iterator[None]:
    """Steps inside have both columns in their metrics."""
    step.StepMetrics = ObservingMetrics  # type: ignore[misc]
    try:
        yield
    finally:
        step.StepMetrics = StepMetrics  # type: ignore[misc]
