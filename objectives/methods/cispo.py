"""CISPO: clipped importance-sampling weights (MiniMax-M1, arXiv:2506.13585, eq. 4-5).

    J = (1 / sum_i |y_i|) sum_i sum_t sg[ clip(r_it, 1 - low, 1 + high) ] A_it log pi(y_it)

No token loses its gradient; the weight alone is bounded. Deviations: the loss is -w A exp(log pi - sg[log pi]), of the
same gradient and a value that can be compared.
Open in the paper: the widths; here no lower bound and an upper weight of 5 (ScaleRL, arXiv:2510.13786; TRL's advice).
Libraries mean different things by "epsilon": verl clips to 0.8 and 1.2 unless told, TRL's is the absolute weight.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from objectives.kinds import Bounds, Surrogate
from objectives.lazy import Tensor
from objectives.part import parameter
from objectives.parts.group_norm import GroupNorm
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class Cispo(Surrogate):
    """Policy gradient whose importance weight is clipped and not differentiated."""

    name = "cispo"
    paper = "arXiv:2506.13585"
    troubles = ("stale_rollouts", "exploration")
    low: float = parameter(1.0, "[0, 1]", "the weight is clipped to 1 - low below")
    high: float = parameter(4.0, "[0, inf)", "the weight is clipped to 1 + high above")

    def loss(
        self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Mapping[str, Tensor]
    ) -> Tensor:
        weight = ratio.detach().clamp(1 - self.low, 1 + self.high)
        return -weight * advantage * (logp - logp.detach()).exp()

    def formula(self) -> str:
        return f"sg[clip(r, {1 - self.low:g}, {1 + self.high:g})] A log p"


recipe(
    "cispo",
    paper="arXiv:2506.13585",
    summary="importance weights clipped and detached, so that every token keeps its gradient",
    variants={"paper": (GroupNorm(), TokenRatio(), Cispo(), TokenMean(), SinglePass())},
    contribution=("cispo",),
    doc=__doc__,
)
