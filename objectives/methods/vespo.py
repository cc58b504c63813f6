"""VESPO: a gamma-shaped gate of the sequence's importance weight (arXiv:2602.10693, as TRL has it).

    J = (1 / sum_i |y_i|) sum_i sum_t sg[phi(W_i)] A_i log pi(y_it),   W_i = prod_t pi/pi_old
    phi(W) = exp(l + k ln W - l W),   (k, l) = (2, 3) where A >= 0, (3, 2) where A < 0

phi(1) = 1; it falls on both sides, above exponentially, so that responses far from the old policy teach nothing. It is
meant for the product of a response's ratios, which the recipe brings; on the ratios of tokens it is something else.
Deviations: the product's logarithm is clamped to [-20, 20] (TRL: the weight to 1e-8 and e^20), phi to e^20; the loss is
-phi A exp(log pi - sg[log pi]), of the same gradient. TRL folds the sampling engine's weight into W; here it would be
sampler_correction, beside it.
Lengths and products are of the policy's tokens.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from objectives.kinds import Bounds, Surrogate
from objectives.lazy import Tensor, torch
from objectives.part import parameter
from objectives.parts.group_norm import GroupNorm
from objectives.parts.sequence_ratio import SequenceRatio
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class GammaGate(Surrogate):
    """Policy gradient whose weight is 1 at a ratio of 1 and falls smoothly on both sides."""

    name = "gamma_gate"
    paper = "arXiv:2602.10693"
    troubles = ("stale_rollouts", "mixture_of_experts")
    k_good: float = parameter(2.0, "[0, inf)", "power of the ratio where A >= 0")
    l_good: float = parameter(3.0, "[0, inf)", "rate at which a larger ratio counts less where A >= 0")
    k_bad: float = parameter(3.0, "[0, inf)", "power of the ratio where A < 0")
    l_bad: float = parameter(2.0, "[0, inf)", "rate at which a larger ratio counts less where A < 0")

    def loss(
        self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Mapping[str, Tensor]
    ) -> Tensor:
        ratio = ratio.detach()
        good = self.l_good + self.k_good * ratio.log() - self.l_good * ratio
        bad = self.l_bad + self.k_bad * ratio.log() - self.l_bad * ratio
        return -torch.where(advantage < 0, bad, good).clamp(max=20.0).exp() * advantage * (logp - logp.detach()).exp()

    def formula(self) -> str:
        good, bad = (self.l_good, self.k_good), (self.l_bad, self.k_bad)
        phi = "exp({0:g} + {1:g} ln r - {0:g} r)"
        return f"sg[{phi.format(*good)} where A >= 0, {phi.format(*bad)} where A < 0] A log p"


recipe(
    "vespo",
    paper="arXiv:2602.10693",
    summary="a smooth gate of the sequence's importance weight",
    variants={"paper": (GroupNorm(), SequenceRatio(norm="sum"), GammaGate(), TokenMean(), SinglePass())},
    contribution=("sequence_ratio", "gamma_gate"),
    essence=("gamma_gate",),
    doc=__doc__,
)
