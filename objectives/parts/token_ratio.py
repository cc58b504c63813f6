"""The importance ratio of PPO (Schulman et al., arXiv:1707.06347).

    r_it = pi(y_it) / pi_old(y_it)

Deviations: log pi - log pi_old is clamped to [-20, 20] before the exponential, so that no ratio overflows.
"""

from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.kinds import Ratio
from objectives.lazy import Tensor
from objectives.zoo import register


@register
@dataclass(frozen=True)
class TokenRatio(Ratio):
    """Importance ratio of each token; exactly 1 with its gradient while the policy has not moved."""

    name = "token_ratio"
    paper = "arXiv:1707.06347"
    reads_once_moved = frozenset({"logp_old"})

    def ratio(self, rows: TokenBatch, logp: Tensor) -> Tensor:
        return log_ratio(rows, logp, self.name).exp()

    def formula(self) -> str:
        return "r = pi(y) / pi_old(y)"


def log_ratio(rows: TokenBatch, logp: Tensor, reader: str) -> Tensor:
    """[n, T] log pi - log pi_old of each token, clamped to [-20, 20], with gradient."""
    unmoved = rows.on_policy and rows.logp_old is None
    return (logp - (logp.detach() if unmoved else rows.require("logp_old", reader))).clamp(-20.0, 20.0)
