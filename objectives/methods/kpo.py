"""KPO: a Kalman filter for the importance ratio (He et al., arXiv:2602.10609).

    x_t = (1 - K_t) x_{t-1} + K_t log pi/pi_old,   K_t = (K_{t-1} + q) / (K_{t-1} + q + 1),   x_0 = K_0 = 0
    r_t = exp(sg[x_t]) pi / sg[pi];   clip(r_t, 1 - 3e-4, 1 + 4e-4), mean per response

q is the process noise over the observation noise, Q/R. K_t is about t q at first, so that the first hundreds of tokens
have a ratio near 1, which is why GSPO's tiny widths go with it.
Deviations: tokens that the loss does not see (a tool's) are not there, whereas the code lets them pull the filter to 0
(by less than 1e-5 of the largest push in 20 batches that have some);
each log-ratio is clamped to [-20, 20]; the gains are exact, those of the code's closed form are off by up to 2.4 %.
An upper bound that it is added to gives way to its own.
"""

import math
from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.kinds import Ratio
from objectives.lazy import Tensor, torch
from objectives.part import parameter
from objectives.parts.clip import Clip
from objectives.parts.clip_higher import ClipHigher
from objectives.parts.group_norm import GroupNorm
from objectives.parts.seq_mean import SeqMean
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_ratio import log_ratio
from objectives.scan import recurrence
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class KalmanRatio(Ratio):
    """Importance ratio whose logarithm is filtered along the response."""

    name = "kalman_ratio"
    paper = "arXiv:2602.10609"
    troubles = ("mixture_of_experts", "stale_rollouts")
    reads_once_moved = frozenset({"logp_old"})
    q: float = parameter(1e-6, "(0, inf)", "noise of the process over that of the observation")

    def ratio(self, rows: TokenBatch, logp: Tensor) -> Tensor:
        gain = self.gains(rows.mask.cumsum(1)).to(logp) * rows.mask
        change = log_ratio(rows, logp.detach(), self.name)
        return (recurrence(1 - gain, gain * change) + (logp - logp.detach())).exp()

    def gains(self, count: Tensor) -> Tensor:
        """K_n in float64 for every n of `count`, by the eigenvalues of K -> (K + q) / (K + q + 1), n times from 0."""
        largest = 1 + self.q / 2 + math.sqrt(self.q + self.q * self.q / 4)
        here, before = (-torch.expm1(-2 * math.log(largest) * n) for n in (count.double(), count.double() - 1))
        return self.q * here / ((1 + self.q) * here - before / largest)

    def formula(self) -> str:
        return f"r = sg[exp(Kalman filter of log pi(y) / pi_old(y) with noise {self.q:g})] pi(y) / sg[pi(y)]"


recipe(
    "kpo",
    paper="arXiv:2602.10609",
    summary="importance ratios smoothed along the response by a Kalman filter",
    variants={"paper": (GroupNorm(), KalmanRatio(), Clip(low=3e-4), ClipHigher(high=4e-4), SeqMean(), SinglePass())},
    contribution=("kalman_ratio", "clip", "clip_higher", "seq_mean"),
    essence=("kalman_ratio",),
    doc=__doc__,
)
