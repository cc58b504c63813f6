"""Mistakes that one could make in ECHO's cross entropy."""

from typing import Any

from torch import Tensor

from objectives import TokenBatch
from tests.objectives.breaks import Break, always, instead, negated, result

PART = "observation_nll"


def with_the_policys(self: Any, batch: TokenBatch, aggregate: Any) -> Tensor:
    observed = batch.observed(self.name)
    return self.alpha * observed / (observed | batch.mask).sum().clamp(min=1)


def per_response(self: Any, batch: TokenBatch, aggregate: Any) -> Tensor:
    observed = batch.observed(self.name)
    each = observed / observed.sum(1, keepdim=True).clamp(min=1)
    return self.alpha * each / observed.any(1).sum().clamp(min=1)


BREAKS = [
    Break("sign", "observations are lowered", PART, "penalty", result(negated)),
    Break("scale", "five times the weight", PART, "alpha", always(0.25)),
    Break("denominator", "the policy's tokens counted too", PART, "coefficients", instead(with_the_policys)),
    Break("denominator", "each response alike", PART, "coefficients", instead(per_response)),
    Break("tokens", "the policy's own tokens", PART, "learns_observations", always(False)),
]
