"""Perplexity shaping (Deng et al., Decomposing the Entropy-Performance Exchange, arXiv:2508.02260), as its code has it.

    A'_i = A_i clip( 1 - alpha z_i, 0.8, 1.2 ),   z_i = (log PPL_i - mean_group) / std_group,   alpha = 0.01

log PPL is minus the mean old log-prob of a response. Mean and deviation (ddof 0; 1 where it is 1e-6 or less) are those
of the group's responses within Tukey's fences, 1.5 times the distance of the quartiles beyond them. Likely responses
count more. On DAPO, with all its parts.
Variant authors: token mean per micro-batch, weighted by its responses. It is what their function does with use_ppl_high
and alpha = -0.01. Their script takes the branch that calculates the same weight and never applies it: as published it
trains as DAPO does, which differs by 1 % of a token's push for each standard deviation, 20 % at most.
"""

from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.groups import group_index
from objectives.kinds import Weight
from objectives.lazy import Tensor, torch
from objectives.methods.dapo import BUT_THE_MEAN
from objectives.order import quantile
from objectives.part import parameter
from objectives.parts.token_mean import TokenMean
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class PerplexityWeight(Weight):
    """Weighs a response by how likely it was among its group: less where it surprised."""

    name = "perplexity_weight"
    paper = "arXiv:2508.02260"
    troubles = ("credit",)
    reads = frozenset({"logp_old", "group"})
    alpha: float = parameter(0.01, "(-inf, inf)", "what a standard deviation of log-perplexity takes off")
    width: float = parameter(0.2, "[0, 1]", "how far from 1 the weight goes")

    def weight(self, batch: TokenBatch) -> Tensor:
        logp, count = batch.require("logp_old", self.name).double(), batch.mask.sum(1)
        surprise = -torch.where(batch.mask, logp, 0.0).sum(1) / count.clamp(min=1)
        index, groups = group_index(batch.require("group", self.name))
        score = torch.zeros_like(surprise)
        for number in range(groups):
            rows = (index == number) & (count > 0)
            score[rows] = _scores(surprise[rows]) if rows.any() else 0.0
        weight = (1 - self.alpha * score).clamp(1 - self.width, 1 + self.width)
        return batch.like_tokens(weight.to(batch.require("advantage", self.name)))

    def formula(self) -> str:
        return f"A *= clip(1 - {self.alpha:g} surprise, {1 - self.width:g}, {1 + self.width:g})"

    def where(self) -> str:
        return "surprise = z-score of log PPL_old in the group, by those within Tukey's fences"


def _scores(values: Tensor) -> Tensor:
    """[n] how many standard deviations above the mean, both of those that are within the fences."""
    low, high = quantile(values, 0.25), quantile(values, 0.75)
    reach = 1.5 * (high - low)
    inside = values[(values >= low - reach) & (values <= high + reach)]
    deviation = inside.std(correction=0)
    return (values - inside.mean()) / torch.where(deviation > 1e-6, deviation, 1.0)


recipe(
    "perplexity_shaping",
    paper="arXiv:2508.02260",
    summary="responses weighed by how likely they were among their group",
    variants={
        "paper": (*BUT_THE_MEAN, PerplexityWeight(), TokenMean()),
        "authors": (*BUT_THE_MEAN, PerplexityWeight(), TokenMean(scope="microbatch")),
    },
    contribution=("perplexity_weight",),
    doc=__doc__,
)
