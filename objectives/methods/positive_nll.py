"""Positive-example likelihood (VAPO, Yue et al., arXiv:2504.05118): right answers are imitated as well.

    L = L_PPO + mu L_NLL,   L_NLL = -(mean over the tokens of right responses of log pi(y_it)),   mu = 0.1

It acts whatever the advantage, and so on groups that are all right; dynamic_sampling removes those first.
On VAPO's clip(0.8, 1.28) and mean over all tokens, with GRPO's advantage: its value network is not here. Deviations:
right is what is correct in full; the mean is the mini-batch's (NeMo-RL takes it over each micro-batch).
"""

from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.kinds import Aggregate, Penalty
from objectives.lazy import Tensor
from objectives.methods.justrl import JUSTRL
from objectives.part import parameter
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class PositiveNLL(Penalty):
    """Negative log-likelihood of right answers."""

    name = "positive_nll"
    paper = "arXiv:2504.05118"
    troubles = ("hard_problems",)
    chooses = True
    reads = frozenset({"correct"})
    mu: float = parameter(0.1, "[0, inf)", "weight of the likelihood in the loss")

    def coefficients(self, batch: TokenBatch, aggregate: Aggregate) -> Tensor:
        tokens = batch.mask & batch.right(self.name)[:, None]
        return tokens.to(batch.require("advantage", self.name)) / tokens.sum().clamp(min=1)

    def penalty(self, rows: TokenBatch, logp: Tensor, entropy: Tensor | None) -> Tensor:
        return -self.mu * logp

    def formula(self) -> str:
        return f"- {self.mu:g} * mean of log p over the tokens of right answers"


recipe(
    "positive_nll",
    paper="arXiv:2504.05118",
    summary="right answers are imitated beside what the advantages say",
    variants={"paper": (*JUSTRL, PositiveNLL())},
    contribution=("positive_nll",),
    doc=__doc__,
)
