"""Divergence from a frozen reference in the loss (GRPO, Shao et al., arXiv:2402.03300, eq. 4).

k1 = log(pi/pi_ref), k2 = k1^2 / 2, k3 = pi_ref/pi - log(pi_ref/pi) - 1 (GRPO's). http://joschu.net/blog/kl-approx.html
"""

from dataclasses import dataclass
from typing import ClassVar

from objectives.batch import TokenBatch
from objectives.kinds import Penalty
from objectives.lazy import Tensor, torch
from objectives.part import parameter
from objectives.zoo import register


@register
@dataclass(frozen=True)
class KL(Penalty):
    """Divergence from the frozen reference, per token, estimated from the sampled token and differentiated directly."""

    name = "kl"
    paper = "arXiv:2402.03300"
    troubles = ("noisy_rewards", "entropy_explosion")
    anchor: ClassVar[str] = "ref"
    """Whose log-probs it is measured to."""
    reads = frozenset({"logp_ref"})
    beta: float = parameter(0.04, "[0, inf)", "weight of the divergence in the loss")
    estimator: str = parameter("k3", ("k1", "k2", "k3"), "which estimator")
    clamp: float | None = parameter(None, "(0, inf)", "bound of the log-ratio's size; it also bounds the result by 10")

    def penalty(self, rows: TokenBatch, logp: Tensor, entropy: Tensor | None) -> Tensor:
        difference = logp - rows.require(f"logp_{self.anchor}", self.name)
        if self.clamp is not None:
            difference = difference.clamp(-self.clamp, self.clamp)
        if self.estimator == "k1":
            estimate = difference
        elif self.estimator == "k2":
            estimate = difference.square() / 2
        else:
            estimate = torch.expm1(-difference) + difference
        return self.beta * (estimate if self.clamp is None else estimate.clamp(-10.0, 10.0))

    def formula(self) -> str:
        clamp = "" if self.clamp is None else f", log p/p_{self.anchor} within {self.clamp:g}"
        return f"+ {self.beta:g} * {self.estimator}(pi, pi_{self.anchor}{clamp})"
