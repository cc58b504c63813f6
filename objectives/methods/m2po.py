"""M2PO: no more off-policy than a second moment allows (arXiv:2510.01161, Algorithm 1).

    harmful: A > 0 and r > 1, or A < 0 and r < 1;   z = log pi/pi_old
    J = 1 / sum |y_i|  sum_i sum_t M_it r_it A_i,
    M_it = 0 for the harmful tokens of the largest z^2, until the mean of z^2 over the other harmful ones is <= 0.04

Searched anew for every mini-batch, over the tokens of all processes. Silenced tokens stay in the denominator. The
budget is that of the authors' page and scripts. Deviations: tokens of equal z^2 are silenced together, so that the
order of rows has no say; a mean may exceed the budget by 1e-6 of it; each z is clamped to [-20, 20].
Variant authors (their verl): PPO's clip to exp(-tau) .. exp(tau) instead, tau^2 the largest z^2 for which the mean of
min(z^2, tau^2) over the harmful tokens is below 0.04; bounds and token mean per micro-batch. That token is clipped too,
as tau is taken 0.1 % smaller: in theirs rounding decides (no token of 40 random batches has another push). Theirs has
tools' tokens in tau: 6 of 20 batches that have some differ, by 0.3 of the largest push (median).
"""

from dataclasses import dataclass

from objectives.batch import Prepared
from objectives.kinds import Mask
from objectives.lazy import Tensor, torch
from objectives.order import running_sum
from objectives.part import Part, parameter
from objectives.parts.clip import Clip
from objectives.parts.group_norm import GroupNorm
from objectives.parts.second_moment_clip import SecondMomentClip, harmful_squares
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.parts.unclipped import Unclipped
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class SecondMomentMask(Mask):
    """Silences the tokens that have moved furthest with their advantage, until the rest is within a budget."""

    name = "second_moment_mask"
    paper = "arXiv:2510.01161"
    troubles = ("stale_rollouts",)
    reads_once_moved = frozenset({"logp", "logp_old"})
    shrinks_denominator = False
    budget: float = parameter(0.04, "(0, inf)", "largest mean of the squared log-ratios of harmful tokens")

    def keeps(self, batch: Prepared) -> Tensor:
        if batch.on_policy:  # all ratios are 1
            return batch.mask
        squares = harmful_squares(batch, self.name)
        ordered = squares[squares > 0].sort().values
        count = torch.arange(1, len(ordered) + 1, device=ordered.device)
        beyond = (running_sum(ordered, 0) > self.budget * count * (1 + 1e-6)).nonzero()
        return batch.mask if len(beyond) == 0 else batch.mask & (squares < ordered[beyond[0, 0]])

    def formula(self) -> str:
        return "A z <= 0 or z^2 < v"

    def where(self) -> str:
        return f"z = log r; v = the least z^2 with mean of z^2 up to it > {self.budget:g} where A z > 0"


_SHARED: tuple[Part, ...] = (GroupNorm(), TokenRatio(), SinglePass())

recipe(
    "m2po",
    paper="arXiv:2510.01161",
    summary="the tokens that moved most are silenced, as many as a second moment demands; no clip",
    variants={
        "paper": (*_SHARED, Unclipped(), SecondMomentMask(), TokenMean()),
        "authors": (*_SHARED, Clip(), SecondMomentClip(scope="microbatch"), TokenMean(scope="microbatch")),
    },
    contribution=("unclipped", "second_moment_mask", "second_moment_clip"),
    doc=__doc__,
)
