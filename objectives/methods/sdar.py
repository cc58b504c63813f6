"""SDAR: gated self-distillation beside GRPO (Lu et al., Self-Distilled Agentic RL, arXiv:2605.15155).

    L = L_GRPO + 0.01 KL + lambda (1/N) sum_i 1/|y_i| sum_t g_it ( log pi_teacher(y_it) - log pi(y_it) )
    g_it = sg[ sigmoid( beta ( log pi_teacher(y_it) - log pi(y_it) ) ) ],   beta = 5, lambda = 0.01

The gate opens on tokens that a teacher with more in its prompt (in the paper skills, here task.teacher_prompt) finds
likelier than the policy; these are raised, and no token is lowered. Open: what of the gates by entropy and by both to
take; here the gap's, as in the code. lambda and 0.01 are those of their scripts.
Variant authors (ZJU-REAL/SDAR, verl): dual_clip(cap=3), kl(clamp=20), means over the tokens of each micro-batch. Left
out: its penalty of invalid actions, which is in the reward.
"""

from dataclasses import dataclass

from objectives.batch import Prepared
from objectives.kinds import Penalty
from objectives.lazy import Tensor
from objectives.part import parameter
from objectives.parts.clip import Clip
from objectives.parts.dual_clip import DualClip
from objectives.parts.group_norm import GroupNorm
from objectives.parts.kl import KL
from objectives.parts.seq_mean import SeqMean
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class GatedDistillation(Penalty):
    """Raises tokens that the teacher finds likelier than the policy, others softly less."""

    name = "gated_distillation"
    paper = "arXiv:2605.15155"
    troubles = ("hard_problems", "credit")
    reads = frozenset({"logp_teacher"})
    coefficient: float = parameter(0.01, "[0, inf)", "lambda, weight of the distillation in the loss")
    beta: float = parameter(5.0, "(0, inf)", "sharpness of the gate")

    def penalty(self, rows: Prepared, logp: Tensor, entropy: Tensor | None) -> Tensor:
        gap = rows.require("logp_teacher", self.name) - logp
        return self.coefficient * (self.beta * gap.detach()).sigmoid() * gap

    def formula(self) -> str:
        return f"+ {self.coefficient:g} * g log p_teacher / p"

    def where(self) -> str:
        return f"g = sg[sigmoid({self.beta:g} log p_teacher / p)]"


_SHARED = (GroupNorm(), TokenRatio(), Clip(), SinglePass(), GatedDistillation())

recipe(
    "sdar",
    paper="arXiv:2605.15155",
    summary="GRPO, and tokens that a teacher with a better prompt endorses are raised",
    variants={
        "paper": (*_SHARED, SeqMean(), KL(0.01)),
        "authors": (*_SHARED, DualClip(), TokenMean(scope="microbatch"), KL(0.01, clamp=20.0)),
    },
    contribution=("gated_distillation",),
    doc=__doc__,
)
