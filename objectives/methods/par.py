"""Positive-advantage reweighting (Jin et al., arXiv:2511.05993, the entropy-guided form), as two notes have it.

    A'_it = lambda A_i where A_i > 0;   lambda <- clip(lambda - 0.05, 0, 1) while H < delta, + 0.05 above

Tokens of good responses are what makes the entropy fall; they count less while it is low. H is the step's mean old
entropy; lambda is carried from step to step and settled before the step's weights. delta is not known here and is asked
for; target_entropy=none leaves lambda as it is. Open: where lambda starts, here at 1; its base, here JustRL's clip at
0.2 and the mean over all tokens. Left out: the forms that follow the share of training done.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from objectives.batch import Prepared, TokenBatch
from objectives.kinds import Weight
from objectives.lazy import Tensor, torch
from objectives.part import ASKED, parameter
from objectives.parts.clip import Clip
from objectives.parts.group_norm import GroupNorm
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class PositiveReweighting(Weight):
    """Weighs the tokens of good responses less while the entropy is below its target."""

    name = "positive_reweighting"
    paper = "arXiv:2511.05993"
    troubles = ("entropy_collapse",)
    target_entropy: float | None = parameter(ASKED, "(0, inf)", "delta in nats; none: the weight stays")
    start: float = parameter(1.0, "[0, 1]", "lambda before the first step")
    step: float = parameter(0.05, "[0, 1]", "by how much lambda moves per step")

    @property
    def needs(self) -> frozenset[str]:
        return frozenset() if self.target_entropy is None else frozenset({"entropy_old"})

    def control(self, batch: TokenBatch, state: Mapping[str, float]) -> Mapping[str, float]:
        if self.target_entropy is None:
            return {}
        last = state.get("weight", self.start)
        entropy = batch.mean("entropy_old", self.name)
        if not math.isfinite(entropy):
            return {"weight": last}
        sign = (entropy > self.target_entropy) - (entropy < self.target_entropy)
        return {"weight": min(max(last + self.step * sign, 0.0), 1.0)}

    def weight(self, batch: Prepared) -> Tensor:
        weight = self.start if self.target_entropy is None else batch.state_of(self.name)["weight"]
        return torch.ones_like(batch.advantage).masked_fill(batch.advantage > 0, weight)

    def formula(self) -> str:
        if self.target_entropy is None:
            return f"A *= ({self.start:g} where A > 0, 1 elsewhere)"
        moved = f"moved by {self.step:g} a step, down while the mean of H_old < {self.target_entropy:g}, up above"
        return f"A *= {self.start:g} where A > 0, {moved}"


recipe(
    "par",
    paper="arXiv:2511.05993",
    summary="good tokens count less while the entropy is below its target",
    variants={"paper": (GroupNorm(), PositiveReweighting(), TokenRatio(), Clip(), TokenMean(), SinglePass())},
    contribution=("positive_reweighting",),
    doc=__doc__,
)
