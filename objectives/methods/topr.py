"""TOPR: tapered off-policy REINFORCE (Le Roux et al., arXiv:2503.14286).

    J = (1/G) sum_i (1/|y_i|) sum_t w_i A_i log pi(y_it),   A_i = 1 where right, -1 where wrong
    w_i = 1 where A_i > 0,  sg[ clip(prod_t pi/pi_old, 0, 1) ] where A_i < 0

Right answers are learnt whatever the policy has become; wrong ones stop to push once they are unlikely. No baseline:
dynamic_sampling would take groups of one kind away. The taper is meant for the product of a response's ratios, which
the recipe brings; sequence_ratio's norm=mean (a document of verl's) or token ratios make it another method.
Deviations: the product's logarithm is clamped to [-20, 20]; the loss is -w A exp(log pi - sg[log pi]).
Lengths and products are of the policy's tokens.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from objectives.errors import ObjectiveError
from objectives.kinds import Bounds, Surrogate
from objectives.lazy import Tensor, torch
from objectives.methods.w_reinforce import SignedReward
from objectives.part import parameter
from objectives.parts.seq_mean import SeqMean
from objectives.parts.sequence_ratio import SequenceRatio
from objectives.parts.single_pass import SinglePass
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class Taper(Surrogate):
    """Policy gradient whose importance weight is clipped where A < 0, and left out where A > 0."""

    name = "taper"
    paper = "arXiv:2503.14286"
    troubles = ("stale_rollouts",)
    low: float = parameter(0.0, "[0, inf)", "smallest weight where A < 0")
    high: float = parameter(1.0, "[0, inf)", "largest weight where A < 0")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low > self.high:
            raise ObjectiveError(f"{self.name}: low={self.low:g} exceeds high={self.high:g}")

    def loss(
        self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Mapping[str, Tensor]
    ) -> Tensor:
        weight = torch.where(advantage > 0, 1.0, ratio.detach().clamp(self.low, self.high))
        return -weight * advantage * (logp - logp.detach()).exp()

    def formula(self) -> str:
        return f"(1 where A > 0, sg[clip(r, {self.low:g}, {self.high:g})] where A < 0) A log p"


recipe(
    "topr",
    paper="arXiv:2503.14286",
    summary="right answers without importance weights, wrong ones with their sequence's, at most 1",
    variants={"paper": (SignedReward(right=1.0), SequenceRatio(norm="sum"), Taper(), SeqMean(), SinglePass())},
    contribution=("signed_reward", "sequence_ratio", "taper", "seq_mean"),
    essence=("signed_reward", "taper"),
    doc=__doc__,
)
