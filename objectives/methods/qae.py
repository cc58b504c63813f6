"""QAE: quantile advantage estimation (Wu et al., arXiv:2509.22611).

    A_i = (R_i - Q_q of the group) / (std_group + 1e-6),   q = 0.4;   on DAPO: clip(0.8, 1.28), dynamic sampling

With binary rewards hard prompts train on right answers alone, easy ones on wrong ones: Q is 0 where the success is at
most 1 - q, else 1. The quantile is the smallest reward R with F(R) >= q; q is 0.6 where the entropy collapses. The
advantages of a group do not sum to zero.
Deviations: without soft_overlong, whose shaped rewards the quantile would pick.
Variant linear: interpolated, as the np.quantile in its README does; nobody's code could be had.
"""

import math
from dataclasses import dataclass

from objectives.groups import group_centred, group_deviation, group_index
from objectives.kinds import Advantage
from objectives.lazy import Tensor, torch
from objectives.order import quantile
from objectives.part import Part, parameter
from objectives.parts.clip import Clip
from objectives.parts.clip_higher import ClipHigher
from objectives.parts.dynamic_sampling import DynamicSampling
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class QuantileNorm(Advantage):
    """Reward minus a quantile of the group's, over the group's standard deviation (ddof 1)."""

    name = "quantile_norm"
    paper = "arXiv:2509.22611"
    troubles = ("entropy_collapse", "entropy_explosion")
    minimum_group = 2
    q: float = parameter(0.4, "(0, 1)", "which quantile of the group's rewards is the baseline")
    kind: str = parameter("lower", ("lower", "linear"), "a reward that is there, or one interpolated")
    eps: float = parameter(1e-6, "[0, inf)", "added to the standard deviation")

    def advantage(self, reward: Tensor, group: Tensor) -> Tensor:
        index, groups = group_index(group)
        deviation = group_deviation(group_centred(reward, index, groups), index, groups)
        above = torch.zeros_like(reward)
        for number in range(groups):
            rows = index == number
            above[rows] = reward[rows] - self._baseline(reward[rows])
        return torch.where(above == 0, 0.0, above / (deviation + self.eps)[index])

    def _baseline(self, rewards: Tensor) -> Tensor:
        if self.kind == "linear":
            return quantile(rewards, self.q)
        return rewards.sort().values[max(math.ceil(round(self.q * len(rewards), 9)), 1) - 1]

    def formula(self) -> str:
        kind = " (linear)" if self.kind == "linear" else ""
        return f"A = (R - {self.q:g}-quantile{kind}) / (std + {self.eps:g}) over the group"


_SHARED: tuple[Part, ...] = (DynamicSampling(), TokenRatio(), Clip(), ClipHigher(), TokenMean(), SinglePass())

recipe(
    "qae",
    paper="arXiv:2509.22611",
    summary="a quantile of the group's rewards as baseline; hard prompts train on right answers alone",
    variants={"paper": (*_SHARED, QuantileNorm()), "linear": (*_SHARED, QuantileNorm(kind="linear"))},
    contribution=("quantile_norm",),
    doc=__doc__,
)
