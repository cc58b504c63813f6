"""GVPO: group variance policy optimisation (Zhang et al., arXiv:2504.19599, as its authors' verl recipe has it).

    L = mean over prompts of  1/(2 (k - 1)) sum_i [ (s_i - mean_group s) - (R_i - mean_group R) ]^2
    s_i = beta sum_t log pi/pi_old of response i,   k responses per prompt

A regression: how much likelier a response has become, against its group, is to be how much better it is. At its least
the policy is pi_old exp(R / beta) up to a factor, so that rollouts may be older, and no ratio or clip is needed. The
sums are settled over whole groups before the update, whatever micro-batches cut; the gradient is exact. Weights may not
be added.
Open: beta; the code's 0.1 here.
Deviations: the code divides by micro-batches, not prompts, a constant factor; log-ratios are clamped to [-20, 20];
where a filter drops responses, means are those of what is left, not differentiated, and so is a prompt's weight.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from objectives.batch import Prepared
from objectives.groups import group_index, group_sum, pushed
from objectives.kinds import Bounds, Surrogate
from objectives.lazy import Tensor
from objectives.part import parameter
from objectives.parts.group_center import GroupCenter
from objectives.parts.seq_sum import SeqSum
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_ratio import TokenRatio, log_ratio
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class GroupVariance(Surrogate):
    """Fits each response's change of log-prob, less its group's mean, to its advantage."""

    name = "group_variance"
    paper = "arXiv:2504.19599"
    troubles = ("stale_rollouts", "many_epochs")
    follows_advantage = False
    reads_ratio = False
    minimum_group = 2
    reads = frozenset({"group"})
    reads_once_moved = frozenset({"logp", "logp_old"})
    beta: float = parameter(0.1, "(0, inf)", "advantage that one nat of log-prob is worth")

    def extra(self, batch: Prepared) -> Mapping[str, Tensor]:
        index, groups = group_index(batch.require("group", self.name))
        tokens, there = batch.mask.sum(1).clamp(min=1), batch.mask.any(1).double()
        change = there * 0
        if not batch.on_policy:
            logp = batch.require("logp", self.name)
            change = self.beta * (log_ratio(batch, logp, self.name) * batch.mask).double().sum(1)
        size = group_sum(there, index, groups)[index]
        left = batch.advantage.double().sum(1) / tokens - change
        left = left + (group_sum(change * there, index, groups)[index]) / size.clamp(min=1)
        scale = (there * size / (size - 1)).where(size > 1, 0.0)
        terms = {"push": scale * self.beta * left, "value": scale * left.square() / 2 / tokens}
        return {name: values.to(batch.advantage) for name, values in terms.items()}

    def loss(
        self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Mapping[str, Tensor]
    ) -> Tensor:
        return pushed(extra, logp)

    def formula(self) -> str:
        return f"(-k / (2 (k - 1) n) (A - {self.beta:g} (s - sg[s_mean]))^2)"

    def where(self) -> str:
        return "s = sum over a response of log p/p_old, s_mean its mean over the group of k, n tokens of the response"


recipe(
    "gvpo",
    paper="arXiv:2504.19599",
    summary="a regression of each response's change of log-prob on its advantage, within the group",
    variants={"paper": (GroupCenter(), TokenRatio(), GroupVariance(), SeqSum(), SinglePass())},
    contribution=("group_variance", "seq_sum"),
    essence=("group_variance",),
    doc=__doc__,
)
