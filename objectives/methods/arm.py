"""ARM, the advantage re-weighting of ProGRPO (Li et al., Back to Basics, arXiv:2602.05281; known from notes on it).

    A'_i = A_i + alpha ( c(q) - c(o_i | q) ),   in groups whose rewards differ
    c(o | q) = exp( mean of log p over the ceil(20 %) least probable tokens of o ),   c(q) = exp( mean of log p over q )

A response of which the policy is surer than of the prompt is pushed less, and one that it doubts more, right or wrong;
p is the old policy's, at the temperature of the rollouts. On JustRL's clip and mean over all tokens.
alpha is not published, so that it is asked for. Open: c(q) "from the prompt's perplexity", here one over it; the groups
left out, those with all wrong in one note and those with equal rewards in another: groups=any_right takes the first.
Deviations: ties among the least probable tokens make no difference; a prompt of one token has c(q) = 1.
"""

from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.groups import group_index, group_sum
from objectives.kinds import Weight
from objectives.lazy import Tensor, torch
from objectives.methods.justrl import JUSTRL
from objectives.part import ASKED, parameter
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class ConfidenceShift(Weight):
    """Adds how much surer the policy was of the prompt than of the response's least probable tokens."""

    name = "confidence_shift"
    paper = "arXiv:2602.05281"
    troubles = ("entropy_collapse", "diversity")
    additive = True
    alpha: float = parameter(ASKED, "[0, inf)", "weight of the difference between the two confidences")
    fraction: float = parameter(0.2, "(0, 1]", "share of a response's tokens, the least probable, that count")
    groups: str = parameter(
        "mixed", ("mixed", "any_right"), "shifted are groups whose rewards differ, or with one right"
    )

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"logp_old", "logp_prompt", "group"} | ({"correct"} if self.groups == "any_right" else set()))

    def weight(self, batch: TokenBatch) -> Tensor:
        shift = self.alpha * (batch.require("logp_prompt", self.name).exp() - self._confidence(batch))
        return torch.where(batch.mask & self._signal(batch)[:, None], shift[:, None], 0.0)

    def _confidence(self, batch: TokenBatch) -> Tensor:
        """[N] the geometric mean of the probabilities of each response's least probable tokens."""
        logp = batch.require("logp_old", self.name).masked_fill(~batch.mask, torch.inf).sort(1).values
        count = (batch.mask.sum(1).double() * self.fraction - 1e-9).ceil().clamp(min=1)
        least = torch.arange(logp.shape[1], device=logp.device) < count[:, None]
        return (torch.where(least & logp.isfinite(), logp, 0.0).sum(1) / count.to(logp)).exp()

    def _signal(self, batch: TokenBatch) -> Tensor:
        """[N] bool: responses of groups that are shifted."""
        differs = (batch.require("advantage", self.name) != 0).any(1)
        told = differs if self.groups == "mixed" else batch.right(self.name)
        index, groups = group_index(batch.require("group", self.name))
        return group_sum(told.to(index), index, groups)[index] > 0

    def formula(self) -> str:
        where = "rewards differ" if self.groups == "mixed" else "one is right"
        return f"A += {self.alpha:g} (c(prompt) - c(y)) where {where}, c(y) over its {self.fraction:.0%} least probable"


recipe(
    "arm",
    paper="arXiv:2602.05281",
    summary="surer responses gain less advantage, measured against the prompt",
    variants={"paper": (*JUSTRL, ConfidenceShift())},
    contribution=("confidence_shift",),
    doc=__doc__,
)
