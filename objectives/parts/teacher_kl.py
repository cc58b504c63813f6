"""Divergence from a teacher in the loss: on-policy distillation as verl's supervised loss has it (docs/algo/opd.md).

    + beta k2 or k3(pi, pi_teacher),   of the sampled token, differentiated directly

k2 has the gradient of `teacher_advantage` while the policy has not moved. k1's would not depend on the teacher, and
divergences of whole distributions (GKD, MiniLLM) need more than the sampled token's log-prob.
"""

from dataclasses import dataclass
from typing import ClassVar

from objectives.part import parameter
from objectives.parts.kl import KL
from objectives.zoo import register


@register
@dataclass(frozen=True)
class TeacherKL(KL):
    """Divergence from the teacher, per token, estimated from the sampled token and differentiated directly."""

    name = "teacher_kl"
    paper = "doi:10.64434/tml.20251026"
    troubles = ("hard_problems", "credit")
    anchor: ClassVar[str] = "teacher"
    reads = frozenset({"logp_teacher"})
    beta: float = parameter(1.0, "[0, inf)", "weight of the divergence in the loss")
    estimator: str = parameter("k3", ("k2", "k3"), "which estimator")
