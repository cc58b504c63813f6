"""The importance ratio of a whole response (GSPO, Zheng et al., arXiv:2507.18071, eq. 7 and 14).

    s_i = exp( mean_t (log pi(y_it) - log pi_old(y_it)) ),   r_it = sg[s_i] pi(y_it) / sg[pi(y_it)]

The gradient is that of the token form, which is GSPO's own where all tokens of a response have one advantage, and which
neither masks nor passes can leak through. The mean is over the tokens that the loss sees, masked or not.
norm=sum takes the product of all ratios (TRL's RLOO, TOPR). Deviations: each token's log-ratio is clamped to [-20, 20],
and so is the product's.
"""

from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.kinds import Ratio
from objectives.lazy import Tensor
from objectives.part import parameter
from objectives.parts.token_ratio import log_ratio
from objectives.zoo import register


@register
@dataclass(frozen=True)
class SequenceRatio(Ratio):
    """One importance ratio for all tokens of a response."""

    name = "sequence_ratio"
    paper = "arXiv:2507.18071"
    troubles = ("mixture_of_experts", "many_epochs")
    reads_once_moved = frozenset({"logp_old"})
    norm: str = parameter("mean", ("mean", "sum"), "how the log-ratios of a response's tokens are put together")

    def ratio(self, rows: TokenBatch, logp: Tensor) -> Tensor:
        total = (log_ratio(rows, logp.detach(), self.name) * rows.mask).sum(1, keepdim=True)
        if self.norm == "mean":
            total = total / rows.mask.sum(1, keepdim=True).clamp(min=1)
        return total.clamp(-20.0, 20.0).exp() * (logp - logp.detach()).exp()

    def formula(self) -> str:
        return f"r = sg[exp({self.norm} over the response of log pi(y) / pi_old(y))] pi(y) / sg[pi(y)]"
