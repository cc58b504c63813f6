"""Entropy advantage (Cheng et al., Reasoning with Exploration: An Entropy Perspective, arXiv:2506.14758).

    A'_it = A_i + min( alpha sg[H_it], |A_i| / kappa ),   alpha = 0.4, kappa = 2

Uncertain tokens gain: right ones are pushed more, wrong ones less. As kappa > 1, no advantage changes its sign, and one
of zero stays zero. H is the current policy's; source=old takes the rollouts' and saves a forward. alpha is 0.1 for PPO.
On GRPO with clip-higher and the mean over all tokens.
Beside factors of the advantage: with source=current those that are settled with the rollouts (advantage_reweighting)
come before it; with source=old it is settled with the rollouts too, and summands are added before factors.
"""

from dataclasses import dataclass

from objectives.batch import TokenBatch, statistic
from objectives.kinds import Weight
from objectives.lazy import Tensor, torch
from objectives.methods.justrl import JUSTRL
from objectives.part import parameter
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class EntropyAdvantage(Weight):
    """Adds a token's entropy to its advantage, up to a part of it."""

    name = "entropy_advantage"
    paper = "arXiv:2506.14758"
    troubles = ("exploration", "entropy_collapse")
    additive = True
    alpha: float = parameter(0.4, "[0, inf)", "weight of the entropy in nats")
    kappa: float = parameter(2.0, "(1, inf)", "at most this part of the advantage's size is added: 1 / kappa")
    source: str = parameter("current", ("current", "old"), "whose entropy: the current policy's or the rollouts'")

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({statistic("entropy", self.source)})

    @property
    def planned(self) -> bool:
        return self.source == "current"

    def weight(self, batch: TokenBatch) -> Tensor:
        entropy = batch.require(statistic("entropy", self.source), self.name)
        return torch.minimum(self.alpha * entropy, batch.require("advantage", self.name).abs() / self.kappa)

    def formula(self) -> str:
        entropy = "H" if self.source == "current" else "H_old"
        return f"A += min({self.alpha:g} {entropy}, |A| / {self.kappa:g})"


recipe(
    "entropy_advantage",
    paper="arXiv:2506.14758",
    summary="tokens of high entropy gain advantage, without a change of sign",
    variants={"paper": (*JUSTRL, EntropyAdvantage())},
    contribution=("entropy_advantage",),
    doc=__doc__,
)
