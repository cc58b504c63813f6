"""A penalty on moving away from the policy of the rollouts, or from the engine that sampled (verl's dro; prime-rl).

    square: z^2,  k2: z^2 / 2,  abs: |z|      z = log pi - log pi_old, or log pi - log pi_sampler

Neither has a published weight, so that one is asked for. DRO is k2 to the old policy beside a policy gradient without
ratio; prime-rl's loss takes 0.001 * square to the sampler.
"""

from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.kinds import Penalty
from objectives.lazy import Tensor
from objectives.part import ASKED, parameter
from objectives.zoo import register


@register
@dataclass(frozen=True)
class Drift(Penalty):
    """Holds the sampled tokens' log-probs near those that they were sampled with."""

    name = "drift"
    paper = "prime-rl 2026"
    troubles = ("many_epochs", "stale_rollouts")
    beta: float = parameter(ASKED, "[0, inf)", "weight of the penalty in the loss")
    estimator: str = parameter("k2", ("square", "k2", "abs"), "of the difference of log-probs")
    to: str = parameter("old", ("old", "sampler"), "near whom: the policy of the rollouts, or the engine")

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({f"logp_{self.to}"})

    def penalty(self, rows: TokenBatch, logp: Tensor, entropy: Tensor | None) -> Tensor:
        difference = logp - rows.require(f"logp_{self.to}", self.name)
        if self.estimator == "abs":
            return self.beta * difference.abs()
        return self.beta * difference.square() / (2 if self.estimator == "k2" else 1)

    def formula(self) -> str:
        return f"+ {self.beta:g} * {self.estimator}(log p/p_{self.to})"
