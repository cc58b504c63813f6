"""Mistakes that one could make in KL-Cov."""

from typing import Any

from torch import Tensor

from objectives import TokenBatch
from tests.objectives.breaks import Break, always, given, instead, negated, result


def squared(self: Any, rows: TokenBatch, logp: Tensor, entropy: object) -> Tensor:
    return self.beta * (logp - rows.logp_old).square() / 2


BREAKS = [
    Break(
        "sign",
        "smallest covariance",
        "cov_penalty",
        "coefficients",
        given(lambda batch, aggregate: (batch.with_fields(advantage=-batch.advantage), aggregate)),
    ),
    Break("sign", "driven away", "cov_penalty", "penalty", result(negated)),
    Break(
        "denominator",
        "mean over the chosen tokens",
        "cov_penalty",
        "coefficients",
        result(lambda c, *given: c / c.sum().clamp(min=1e-9)),
    ),
    Break("scope", "means per micro-batch", "cov_penalty", "scope", always("microbatch")),
    Break("detach", "not differentiated", "cov_penalty", "penalty", result(lambda penalty, *given: penalty.detach())),
    Break("bound", "squared distance", "cov_penalty", "penalty", instead(squared)),
]
