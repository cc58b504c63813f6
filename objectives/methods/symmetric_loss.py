"""Symmetric loss (Byun and Perrault, Symmetric Reinforcement Learning Loss, arXiv:2405.17618), as its code has it.

    L = alpha L_PPO + beta L_reverse,   L_reverse = A (1 - pi) / pi_old where PPO's clip is idle, 0 elsewhere (Z = -1)

Where rewards are wrong, as where labels are, cross-entropy backwards is to hold against it. 1 - pi is what all other
tokens have. alpha and beta are 0.5 and 0.4 in their script for IMDB, 0.5 and 0.2 in that for TL;DR.
Note: where the clip is idle the gradient of L_reverse is that of -r A, PPO's own. So the whole gradient is alpha + beta
times PPO's, and the same under Adam, which divides by its size.
Deviations: A / pi_old, which has no gradient and overflows for rare tokens, is left out of the loss. Left out: their
value loss and the likelihood of reference texts. Open: their advantage is GAE's, whitened; here GRPO's.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from objectives.kinds import Bounds
from objectives.lazy import Tensor, torch
from objectives.part import parameter
from objectives.parts.clip import Clip
from objectives.parts.group_norm import GroupNorm
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class SymmetricClip(Clip):
    """PPO's clipped surrogate, and the reverse cross-entropy of the tokens that it does not clip."""

    name = "symmetric_clip"
    paper = "arXiv:2405.17618"
    troubles = ("noisy_rewards",)
    alpha: float = parameter(0.5, "[0, inf)", "weight of PPO's surrogate")
    beta: float = parameter(0.4, "[0, inf)", "weight of the reverse cross-entropy")

    def loss(
        self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Mapping[str, Tensor]
    ) -> Tensor:
        clipped = super().loss(ratio, logp, advantage, bounds, extra)
        reverse = torch.where(self.clips(ratio, advantage, bounds), 0.0, -advantage * ratio)
        return self.alpha * clipped + self.beta * reverse

    def equation(self, numbers: Mapping[str, str]) -> str:
        cut = f"A > 0 and r > {numbers['high']} or A < 0 and r < {numbers['low']}"
        cut += f" or A < 0 and r > {numbers['cap']}" if "cap" in numbers else ""
        return f"({self.alpha:g} {super().equation(numbers)} + (0 where {cut}, {self.beta:g} r A elsewhere))"


recipe(
    "symmetric_loss",
    paper="arXiv:2405.17618",
    summary="PPO and reverse cross-entropy, against wrong rewards; its gradient is PPO's, scaled",
    variants={"paper": (GroupNorm(), TokenRatio(), SymmetricClip(), TokenMean(), SinglePass())},
    contribution=("symmetric_clip",),
    doc=__doc__,
)
