"""Truncated importance sampling for rollouts of another engine (Yao et al., Your Efficient RL Framework Secretly Brings
You Off-Policy RL Training, 2025, https://fengyao.notion.site/off-policy-rl).

    A'_it = min( pi_old(y_it) / pi_sampler(y_it), cap ) A_i

pi_sampler is what the rollout engine says it sampled with; kernels, caches and dtypes make it differ from the trainer's
pi_old. Off in every recipe. Deviations: log pi_old - log pi_sampler is clamped to [-20, 20]; the weight enters through
the advantage, which is the same as a factor on the clipped objective, for it is never negative.
Open: the cap; 2 is what the authors' verl examples use.
"""

from dataclasses import dataclass

from torch import Tensor

from objectives.batch import TokenBatch
from objectives.kinds import Weight
from objectives.part import parameter
from objectives.zoo import register


@register
@dataclass(frozen=True)
class SamplerCorrection(Weight):
    """Weighs each token by how much likelier the trainer's policy makes it than the engine that sampled it, capped."""

    name = "sampler_correction"
    paper = "Yao et al. 2025"
    reads = frozenset({"logp_old", "logp_sampler"})
    cap: float = parameter(2.0, "(0, inf)", "largest weight")

    def weight(self, batch: TokenBatch) -> Tensor:
        difference = batch.require("logp_old", self.name) - batch.require("logp_sampler", self.name)
        return difference.clamp(-20.0, 20.0).exp().clamp(max=self.cap)

    def formula(self) -> str:
        return f"A *= min(p_old / p_sampler, {self.cap:g})"
