"""An unbiased estimate of the divergence's gradient off-policy (DeepSeek-V3.2, arXiv:2512.02556).

    + beta r (pi_ref/pi - log(pi_ref/pi) - 1),   r = pi/pi_old, differentiated too

k3 weighed by the importance ratio: its expectation over the old policy is the divergence of the current one. As TRL
1.16.0's GRPOTrainer has it with use_bias_correction_kl and ratios of tokens, beside which tests run it. Open: beta;
TRL's example takes 0.001. Deviations: log-ratios are clamped to [-20, 20].
"""

from dataclasses import dataclass

from objectives.batch import Prepared
from objectives.kinds import Penalty
from objectives.lazy import Tensor, torch
from objectives.part import parameter
from objectives.parts.token_ratio import log_ratio
from objectives.zoo import register


@register
@dataclass(frozen=True)
class UnbiasedKL(Penalty):
    """Divergence from the frozen reference, weighed by how much likelier the policy has made the token."""

    name = "unbiased_kl"
    paper = "arXiv:2512.02556"
    troubles = ("noisy_rewards", "entropy_explosion")
    reads = frozenset({"logp_ref"})
    reads_once_moved = frozenset({"logp_old"})
    beta: float = parameter(0.04, "[0, inf)", "weight of the divergence in the loss")

    def penalty(self, rows: Prepared, logp: Tensor, entropy: Tensor | None) -> Tensor:
        difference = logp - rows.require("logp_ref", self.name)
        estimate = torch.expm1(-difference) + difference
        return self.beta * log_ratio(rows, logp, self.name).exp() * estimate

    def formula(self) -> str:
        return f"+ {self.beta:g} * pi(y) / pi_old(y) (p_ref / p + log p/p_ref - 1)"
