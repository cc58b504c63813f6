"""MinPRO: the smallest prefix ratio in place of the prefix's product (arXiv:2601.22718).

    J = (1 / sum_i |y_i|) sum_i sum_t sg[ clip(rho_it min_{s<t} rho_is, 1 - low, 1 + high) ] A_it log pi(y_it)

rho = pi/pi_old; the exact correction would be the product over the prefix. The first token has no prefix: its minimum
is 1. The widths are CISPO's kind and not published, so that they are asked for.
Open: whether 1 takes part in the minimum (prefix=capped), or the token itself does (prefix=inclusive); as printed,
neither (prefix=strict). Deviations: log-ratios, and their sums, are clamped to [-20, 20]; tokens that the loss does not
see are not there.
"""

import math
from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.kinds import Ratio
from objectives.lazy import Tensor, torch
from objectives.methods.cispo import Cispo
from objectives.part import ASKED, parameter
from objectives.parts.group_norm import GroupNorm
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import log_ratio
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class PrefixMinRatio(Ratio):
    """Importance ratio of each token times the smallest one before it in the response."""

    name = "prefix_min_ratio"
    paper = "arXiv:2601.22718"
    troubles = ("mixture_of_experts", "stale_rollouts")
    reads_once_moved = frozenset({"logp_old"})
    prefix: str = parameter(
        "strict", ("strict", "capped", "inclusive"), "tokens before, or 1 as well, or itself as well"
    )

    def ratio(self, rows: TokenBatch, logp: Tensor) -> Tensor:
        change = log_ratio(rows, logp, self.name)
        before = torch.where(rows.mask, change.detach(), math.inf)
        if self.prefix != "inclusive":
            first = 0.0 if self.prefix == "capped" else math.inf
            before = torch.nn.functional.pad(before, (1, 0), value=first)[:, :-1]
        smallest = before.cummin(1).values
        return (change + torch.where(smallest.isinf(), 0.0, smallest)).clamp(-20.0, 20.0).exp()

    def formula(self) -> str:
        which = {"strict": "before it", "capped": "before it and 1", "inclusive": "up to it"}[self.prefix]
        return f"r = pi(y) / pi_old(y) sg[the smallest pi(y) / pi_old(y) {which}]"


recipe(
    "minpro",
    paper="arXiv:2601.22718",
    summary="importance weights times the smallest of their prefix, clipped and detached",
    variants={"paper": (GroupNorm(), PrefixMinRatio(), Cispo(low=ASKED, high=ASKED), TokenMean(), SinglePass())},
    contribution=("prefix_min_ratio", "cispo"),
    essence=("prefix_min_ratio",),
    doc=__doc__,
)
