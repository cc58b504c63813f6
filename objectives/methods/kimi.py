"""Kimi k1.5's policy mirror descent (arXiv:2501.12599, eq. 3).

    grad J = (1/N) sum_i [ (R_i - mean_group) grad log pi(y_i) - (tau/2) grad ( log pi(y_i)/pi_old(y_i) )^2 ]

log pi(y_i) is the sum over the response, whose square is held near the policy of the rollouts. Variant roll (alibaba/
ROLL): the square of each token, mean over all tokens. Open: tau; ROLL's default 0.1 here. Left out: the length reward.
The gradient of the square is given token by token, tau sg[log pi(y_i)/pi_old(y_i)] grad log pi(y_it), so that passes
and masks do not leak; the equation prints that form, whose value is twice the penalty's.
Sums are over the policy's tokens.
"""

from dataclasses import dataclass

from objectives.batch import Prepared
from objectives.kinds import Penalty
from objectives.lazy import Tensor
from objectives.part import parameter
from objectives.parts.drift import Drift
from objectives.parts.group_center import GroupCenter
from objectives.parts.reinforce import Reinforce
from objectives.parts.seq_sum import SeqSum
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class SequenceDrift(Penalty):
    """Holds the log-prob of each whole response near that of the policy of the rollouts."""

    name = "sequence_drift"
    paper = "arXiv:2501.12599"
    troubles = ("many_epochs", "stale_rollouts")
    reads_once_moved = frozenset({"logp_old"})
    tau: float = parameter(0.1, "[0, inf)", "weight of the squared log-ratio, half of which is in the loss")

    def penalty(self, rows: Prepared, logp: Tensor, entropy: Tensor | None) -> Tensor:
        anchor = logp.detach() if rows.on_policy and rows.logp_old is None else rows.require("logp_old", self.name)
        change = (logp - anchor) * rows.mask
        total = change.detach().sum(1, keepdim=True)
        return self.tau * total * (change - change.detach() / 2)

    def formula(self) -> str:
        return f"+ {self.tau:g} * log p/p_old sg[sum over the response of log pi(y) / pi_old(y)]"


_SHARED = (GroupCenter(), TokenRatio(), Reinforce(), SinglePass())

recipe(
    "kimi",
    paper="arXiv:2501.12599",
    summary="policy gradient of centred rewards, each response's log-prob held near the old one",
    variants={
        "paper": (*_SHARED, SeqSum(), SequenceDrift()),
        "roll": (*_SHARED, TokenMean(), Drift(beta=0.1)),
    },
    contribution=("reinforce", "sequence_drift", "drift"),
    doc=__doc__,
)
