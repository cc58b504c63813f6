"""TPO's loss: the group's probabilities are fitted to a target (Kaddour, arXiv:2604.06159); see the recipe `tpo`.

    P = softmax over the group of sum_t log pi(y_it),   q = softmax of sum_t log pi_old(y_it) + A_i / eta

A response is pushed by q_i - P_i. Where the two are close, q - P comes from their logarithms.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from objectives.batch import Prepared
from objectives.groups import group_index, group_log_softmax, group_sum, pushed
from objectives.kinds import Bounds, Surrogate
from objectives.lazy import Tensor, torch
from objectives.part import parameter
from objectives.zoo import register


@register
@dataclass(frozen=True)
class TargetMatch(Surrogate):
    """Fits the probabilities of a group's responses to the old ones, tilted by the advantage."""

    name = "target_match"
    paper = "arXiv:2604.06159"
    troubles = ("hard_problems", "many_epochs")
    follows_advantage = False
    reads_ratio = False
    reads = frozenset({"group", "logp_old"})
    reads_once_moved = frozenset({"logp"})
    eta: float = parameter(1.0, "(0, inf)", "temperature of the advantage in the target")

    def extra(self, batch: Prepared) -> Mapping[str, Tensor]:
        index, groups = group_index(batch.require("group", self.name))
        tokens, there = batch.mask.sum(1), batch.mask.any(1)
        old = (batch.require("logp_old", self.name) * batch.mask).double().sum(1)
        logp = old if batch.on_policy else (batch.require("logp", self.name) * batch.mask).double().sum(1)
        wanted = old + batch.advantage.double().sum(1) / tokens.clamp(min=1) / self.eta
        log_p, log_q = (group_log_softmax(score, there, index, groups) for score in (logp, wanted))
        size = group_sum(there.double(), index, groups)[index]
        push = size * _difference(log_q, log_p, wanted - logp, index, groups)
        cross = group_sum((log_q.exp() * log_p).where(there, 0.0), index, groups)[index]
        terms = {"push": push, "value": -cross / tokens.clamp(min=1)}
        return {name: values.where(there, 0.0).to(batch.advantage) for name, values in terms.items()}

    def loss(
        self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Mapping[str, Tensor]
    ) -> Tensor:
        return pushed(extra, logp)

    def formula(self) -> str:
        return "k (q - sg[P]) log p"

    def where(self) -> str:
        return (
            "P = softmax over the group of the sum over a response of log p, "
            f"q that of log p_old and A / {self.eta:g}, k responses"
        )


def _difference(log_q: Tensor, log_p: Tensor, change: Tensor, index: Tensor, groups: int) -> Tensor:
    """[N] q - p of softmaxes over groups whose scores differ by `change` [N]; 0 where all of a group's are equal.

    log q - log p = change - log(mean of exp(change) under p), each change less that of the likeliest row of its group.
    """
    highest = log_p.new_zeros(groups).scatter_reduce(0, index, log_p, "amax", include_self=False)
    likeliest = (log_p == highest[index]) & log_p.isfinite()
    change = (
        change - (group_sum(change * likeliest, index, groups) / group_sum(likeliest.double(), index, groups))[index]
    )
    p = log_p.exp()
    excess = torch.where(change > 1, (log_p + change).exp() - p, p * change.clamp(max=1).expm1())
    apart = change - group_sum(excess.where(p > 0, 0.0), index, groups).log1p()[index]
    return torch.where(apart.abs() < 1, p * apart.clamp(-1, 1).expm1(), log_q.exp() - p)
