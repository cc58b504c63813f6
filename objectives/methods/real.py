"""REAL: rewards as labels of a classification within the group (arXiv:2602.05630, as ms-swift has it).

    L = mean over prompts of  log(1 + sum_{A_i > 0} e^{-s_i / tau}) + log(1 + sum_{A_i <= 0} e^{s_i / tau})
    s_i = mean_t log pi/pi_old of response i,   tau = 0.5;   groups of one kind are left out

A response is pushed at most by 1/tau, the less the surer it is told from the others: right ones that became unlikely
and wrong ones that became likely count most. Only the sign of the advantage has a say: weights may not be added.
Adding it brings the mean over responses, in which the loss of each is its group's. Where groups differ in size, a
prompt counts by its responses. Deviations: each log-ratio is clamped to [-20, 20].
Means are over the policy's tokens.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.groups import group_index, group_sum, pushed
from objectives.kinds import Bounds, Surrogate
from objectives.lazy import Tensor, torch
from objectives.part import parameter
from objectives.parts.group_center import GroupCenter
from objectives.parts.seq_mean import SeqMean
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_ratio import TokenRatio, log_ratio
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class GroupContrast(Surrogate):
    """Tells the good responses of a group from the others by how far the policy has moved towards each."""

    name = "group_contrast"
    paper = "arXiv:2602.05630"
    follows_advantage = False
    reads_ratio = False
    reads = frozenset({"group"})
    reads_once_moved = frozenset({"logp", "logp_old"})
    tau: float = parameter(0.5, "(0, inf)", "temperature of the classification")

    def extra(self, batch: TokenBatch) -> Mapping[str, Tensor]:
        index, groups = group_index(batch.require("group", self.name))
        advantage = batch.require("advantage", self.name)
        change = torch.zeros_like(advantage)
        if not batch.on_policy:
            change = log_ratio(batch, batch.require("logp", self.name), self.name) * batch.mask
        good = advantage.sum(1) > 0
        sign, there = torch.where(good, 1.0, -1.0).double(), batch.mask.any(1)
        score = (-sign * change.double().sum(1) / batch.mask.sum(1).clamp(min=1) / self.tau).where(there, -torch.inf)
        kind = 2 * index + good  # the good ones of a group, or the others
        highest = score.new_zeros(2 * groups).scatter_reduce(0, kind, score, "amax")
        total = highest + ((-highest).exp() + group_sum((score - highest[kind]).exp(), kind, 2 * groups)).log()
        both = (group_sum(there.to(score), kind, 2 * groups) > 0).view(-1, 2).all(1)[index]
        size = group_sum(there.to(score), index, groups)[index]
        terms = {"push": sign * size * (score - total[kind]).exp() / self.tau, "value": total.view(-1, 2).sum(1)[index]}
        return {name: values.where(both, 0.0).to(advantage) for name, values in terms.items()}

    def loss(
        self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Mapping[str, Tensor]
    ) -> Tensor:
        return pushed(extra, logp)

    def formula(self) -> str:
        sums = "(1 + sum of exp({}s/{:g}) over those with A {} 0)".format
        return f"(-log{sums('-', self.tau, '>')} - log{sums('', self.tau, '<=')})"

    def where(self) -> str:
        return "s = mean over a response of log p/p_old, and groups of one kind are left out"


recipe(
    "real",
    paper="arXiv:2602.05630",
    summary="right and wrong responses of a group told apart by a bounded classification",
    variants={"paper": (GroupCenter(), TokenRatio(), GroupContrast(), SeqMean(), SinglePass())},
    contribution=("group_contrast", "seq_mean"),
    essence=("group_contrast",),
    doc=__doc__,
)
