"""SAPO: soft adaptive policy optimisation (Gao et al., arXiv:2511.20347).

    J = (1/G) sum_i (1/|y_i|) sum_t f(r_it) A_i,   f(r) = (4/tau) sigmoid(tau (r - 1))
    tau = 1 where A > 0, 1.05 elsewhere;  the gradient's factor is sech^2(tau (r - 1)/2) r

No clip: the gate closes smoothly on both sides of r = 1, where its slope is 1, so that one far outlier is ignored.
f(1) = 2/tau is not 1: values of the loss do not compare with PPO's. It goes with sequence_ratio too.
verl's example sets policy_loss.tau_*, which its loss does not read.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from objectives.kinds import Bounds, Surrogate
from objectives.lazy import Tensor, torch
from objectives.part import parameter
from objectives.parts.group_norm import GroupNorm
from objectives.parts.seq_mean import SeqMean
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class SoftGate(Surrogate):
    """A sigmoid of the ratio in place of the clip."""

    name = "soft_gate"
    paper = "arXiv:2511.20347"
    troubles = ("mixture_of_experts", "many_epochs")
    tau_pos: float = parameter(1.0, "[1e-6, inf)", "how fast the gate closes where the advantage is positive")
    tau_neg: float = parameter(1.05, "[1e-6, inf)", "how fast it closes elsewhere")

    def loss(
        self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Mapping[str, Tensor]
    ) -> Tensor:
        tau = torch.where(advantage > 0, torch.full_like(advantage, self.tau_pos), self.tau_neg)
        return -4 / tau * torch.sigmoid(tau * (ratio - 1)) * advantage

    def formula(self) -> str:
        return "4/tau sigmoid(tau (r - 1)) A"

    def where(self) -> str:
        return f"tau = {self.tau_pos:g} where A > 0, {self.tau_neg:g} elsewhere"


recipe(
    "sapo",
    paper="arXiv:2511.20347",
    summary="a soft gate on the ratio in place of the clip, tighter where the advantage is negative",
    variants={"paper": (GroupNorm(), TokenRatio(), SoftGate(), SeqMean(), SinglePass())},
    contribution=("soft_gate",),
    doc=__doc__,
)
