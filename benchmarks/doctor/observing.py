"""What verl and prime-rl log of sampler and trainer, of our own steps: the columns of detectors that stand in."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor

from rlzoo.training import trainer
from rlzoo.training.tally import Tally


class ObservingTally(Tally):
    """Also compares probabilities of tokens; the divergence is the k3 that we log under another name."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.probability_differences = [torch.zeros(0, dtype=torch.float64, device=self.device)]

    def add_unmoved(self, local: Tensor, logp: Tensor) -> None:
        """As verl does: mean over tokens of |p_trainer - p_sampler|."""
        super().add_unmoved(local, logp)
        width = logp.shape[1]
        difference = logp.double().exp() - self.logp[local][:, :width].double().exp()
        self.probability_differences.append(difference.abs()[self.mask[local][:, :width]])

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
    trainer.Tally = ObservingTally  # type: ignore[misc]
    try:
        yield
    finally:
        trainer.Tally = Tally  # type: ignore[misc]
