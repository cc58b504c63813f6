"""RLSD's weights by a teacher's evidence (Yang et al., arXiv:2604.03128, eq. 13-15 and Algorithm 1); see `rlsd`.

A'_it = A_i ( 1 - m + m clip( (pi_teacher(y_it) / pi(y_it))^sign(A_i), 1 - eps, 1 + eps ) )
"""

from collections.abc import Mapping
from dataclasses import dataclass

from objectives.batch import Prepared, statistic
from objectives.kinds import Weight
from objectives.lazy import Tensor
from objectives.part import parameter
from objectives.zoo import register


@register
@dataclass(frozen=True)
class EvidenceReweighting(Weight):
    """Weighs a token by how much likelier the teacher finds it where A > 0, and how much less likely where A < 0."""

    name = "evidence_reweighting"
    paper = "arXiv:2604.03128"
    troubles = ("credit",)
    mix: float = parameter(0.5, "[0, 1]", "m in the first step: the weight's share, the rest being 1")
    width: float = parameter(0.2, "[0, 1)", "eps, how far the weight may be from 1")
    steps: int = parameter(50, "[0, inf)", "steps over which m falls to 0; 0: it stays")
    source: str = parameter("old", ("old", "current"), "whose log-prob is the policy's: at rollout time or now")

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"logp_teacher", statistic("logp", self.source)})

    @property
    def planned(self) -> bool:
        return self.source == "current"

    def control(self, batch: Prepared, state: Mapping[str, float]) -> Mapping[str, float]:
        step = state.get("step", -1.0) + 1
        left = max(0.0, 1 - step / self.steps) if self.steps else 1.0
        return {"step": step, "mix": self.mix * left}

    def weight(self, batch: Prepared) -> Tensor:
        policy = batch.require(statistic("logp", self.source), self.name)
        gain = batch.require("logp_teacher", self.name) - policy
        evidence = (batch.advantage.sign() * gain).exp().clamp(1 - self.width, 1 + self.width)
        mix = batch.state_of(self.name)["mix"]
        return 1 - mix + mix * evidence

    def formula(self) -> str:
        return "A *= 1 - m + m e"

    def where(self) -> str:
        policy, low, high = "p" if self.source == "current" else "p_old", 1 - self.width, 1 + self.width
        falls = f", falling to 0 over {self.steps} steps" if self.steps else ""
        evidence = f"e = p_teacher / {policy} where A > 0 and {policy} / p_teacher where A < 0, in [{low:g}, {high:g}]"
        return f"{evidence}; m = {self.mix:g}{falls}"
