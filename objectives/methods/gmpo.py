"""GMPO: geometric-mean policy optimisation (Zhao et al., arXiv:2507.20673).

    J = (1/G) sum_i s_i A_i,   s_i = exp( (1/|y_i|) sum_t clip*(log pi/pi_old) )
    clip*(z) = min(z, high) where A >= 0, max(z, -low) where A < 0

Each log-ratio is clipped before the geometric mean: one token moves a response's ratio little, and a clipped token has
no gradient. The widths, 0.4, are of logarithms; those of other clips mean something else. The advantage's sign is the
token's own. Deviations: each log-ratio is clamped to [-20, 20]; the gradient is that of the token form, as in gspo, so
that neither masks nor passes can leak through. verl's example adds kl(beta=0.001).
|y_i| and t are of the policy's tokens.
"""

from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.kinds import Ratio
from objectives.lazy import Tensor, torch
from objectives.part import parameter
from objectives.parts.group_norm import GroupNorm
from objectives.parts.seq_mean import SeqMean
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_ratio import log_ratio
from objectives.parts.unclipped import Unclipped
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class GeometricRatio(Ratio):
    """Geometric mean of a response's ratios, each of which is clipped first, pessimistically."""

    name = "geometric_ratio"
    paper = "arXiv:2507.20673"
    troubles = ("mixture_of_experts", "stale_rollouts")
    reads_once_moved = frozenset({"logp_old"})
    low: float = parameter(0.4, "[0, inf)", "log-ratios are clipped to -low below where A < 0")
    high: float = parameter(0.4, "[0, inf)", "log-ratios are clipped to high above where A >= 0")

    def ratio(self, rows: TokenBatch, logp: Tensor) -> Tensor:
        change = log_ratio(rows, logp.detach(), self.name)
        falling = rows.require("advantage", self.name) < 0
        clipped = torch.where(falling, change.clamp(min=-self.low), change.clamp(max=self.high))
        mean = (clipped * rows.mask).sum(1, keepdim=True) / rows.mask.sum(1, keepdim=True).clamp(min=1)
        return mean.exp() * torch.where(clipped == change, logp - logp.detach(), 0.0).exp()

    def formula(self) -> str:
        return "r = sg[exp(mean over the response of z)] exp(z) / sg[exp(z)]"

    def where(self) -> str:
        change = "log pi(y) / pi_old(y)"
        return f"z = max({change}, -{self.low:g}) where A < 0, min({change}, {self.high:g}) where A >= 0"


recipe(
    "gmpo",
    paper="arXiv:2507.20673",
    summary="the geometric mean of a response's ratios, each clipped before it is taken",
    variants={"paper": (GroupNorm(), GeometricRatio(), Unclipped(), SeqMean(), SinglePass())},
    contribution=("geometric_ratio", "unclipped", "seq_mean"),
    essence=("geometric_ratio",),
    doc=__doc__,
)
