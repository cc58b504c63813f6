"""Lopti, low-probability token isolation (Yang et al., arXiv:2505.12929, Algorithm 1): two ordered update passes.

    pass 1: all mini-batches of the step, tokens with pi_old(y_it) < eta
    pass 2: all of them again, the other tokens

Old log-probs and the split stay those of the rollouts; both passes divide by the full token count, so at the same
parameters their gradients add up to the joint one; KL and entropy terms belong to the pass of their token.
With advantage_reweighting the authors take eta = 0.5 and alpha = 0.3. With stare, STARE's authors take its share within
each pass; here it is that of the rollouts.
Deviations: the boundary is strict, as in the code; the paper's algorithm prints "<=".
Variant authors: eta = 0.4; dual_clip(cap=10); the KL's log-ratio is clamped; token mean per micro-batch,
weighted by its responses. Their code weighs micro-batches equally: the same where their sizes are, as in their scripts;
a third of the largest push away where they are not (median of 23 random batches).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from objectives.account import Action
from objectives.batch import Prepared, TokenBatch
from objectives.kinds import Schedule
from objectives.lazy import Tensor
from objectives.methods.advantage_reweighting import AUTHORS_BASE, PAPER_BASE
from objectives.order import quantile
from objectives.part import parameter
from objectives.zoo import recipe, register

PAPER = "arXiv:2505.12929"


@register
@dataclass(frozen=True)
class Lopti(Schedule):
    """Updates the improbable tokens first, then the probable ones, each in a pass of its own."""

    name = "lopti"
    paper = PAPER
    troubles = ("spurious_tokens",)
    reads = frozenset({"logp_old"})
    eta: float = parameter(0.5, "(0, 1]", "old probability below which a token belongs to the low group")
    portion: float | None = parameter(None, "(0, 1)", "split at this quantile of the old probabilities instead of eta")
    order: str = parameter("low_first", ("low_first", "high_first"), "which group is updated first")

    @property
    def pass_count(self) -> int:
        return 2

    def passes(self, batch: Prepared) -> Sequence[Prepared]:
        low = batch.mask & self._low(batch)
        groups = [low, ~low]  # what an environment wrote is among the others
        if self.order == "high_first":
            groups.reverse()
        batch = batch.entered(self.name, Action.GROUP, low)
        return [batch.with_fields(policy_mask=group, penalty_mask=group) for group in groups]

    def _low(self, batch: TokenBatch) -> Tensor:
        probability = batch.require("logp_old", self.name).exp()
        if self.portion is None or not batch.mask.any():
            return probability < probability.new_full((), self.eta)
        return probability < quantile(probability[batch.mask], self.portion)

    def formula(self) -> str:
        low = f"p_old < {self.eta:g}" if self.portion is None else f"p_old < its {self.portion:.0%} quantile"
        first, second = (low, "the rest") if self.order == "low_first" else ("the rest", low)
        return f"pass 1: {first}; pass 2: {second}"


recipe(
    "lopti",
    paper=PAPER,
    summary="two ordered passes: improbable tokens first, then the others",
    variants={"paper": (*PAPER_BASE, Lopti()), "authors": (*AUTHORS_BASE, Lopti(eta=0.4))},
    contribution=("lopti",),
    doc=__doc__,
)
