"""A teacher's opinion of each token as its advantage (On-Policy Distillation, Lu and Thinking Machines Lab, 2025).

    A_it <- A_it + c ( log pi_teacher(y_it) - sg[log pi(y_it)] )

In expectation over sampled tokens it lowers the reverse KL of the policy to the teacher, token by token; what a token
does to those behind it is not counted (their kl_discount_factor, 0 by default, is left out). See `opd` and `opsd`.
"""

from dataclasses import dataclass

from objectives.batch import Prepared, statistic
from objectives.kinds import Weight
from objectives.lazy import Tensor
from objectives.part import parameter
from objectives.zoo import register


@register
@dataclass(frozen=True)
class TeacherAdvantage(Weight):
    """Adds to a token's advantage how much likelier the teacher finds it than the policy."""

    name = "teacher_advantage"
    paper = "doi:10.64434/tml.20251026"
    troubles = ("hard_problems", "credit")
    additive = True
    coefficient: float = parameter(1.0, "[0, inf)", "weight of the difference of log-probs")
    source: str = parameter("old", ("old", "current"), "whose log-prob is the policy's: at rollout time or now")
    clamp: float | None = parameter(None, "(0, inf)", "bound of the difference's size")

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"logp_teacher", statistic("logp", self.source)})

    @property
    def planned(self) -> bool:
        return self.source == "current"

    def weight(self, batch: Prepared) -> Tensor:
        policy = batch.require(statistic("logp", self.source), self.name)
        difference = batch.require("logp_teacher", self.name) - policy
        if self.clamp is not None:
            difference = difference.clamp(-self.clamp, self.clamp)
        return self.coefficient * difference

    def formula(self) -> str:
        policy = "p" if self.source == "current" else "p_old"
        bound = "" if self.clamp is None else f", within {self.clamp:g}"
        return f"A += {self.coefficient:g} * log p_teacher / {policy}{bound}"
