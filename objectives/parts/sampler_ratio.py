"""The importance ratio to the engine that sampled (DPPO, arXiv:2602.04879; prime-rl).

    r_it = pi(y_it) / pi_sampler(y_it)

One ratio for both, the policy's updates and the engine's mismatch, so that sampler_correction, which would count the
mismatch twice, is refused beside it. Deviations: the log-ratio is clamped to [-20, 20].
"""

from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.kinds import Ratio
from objectives.lazy import Tensor
from objectives.zoo import register


@register
@dataclass(frozen=True)
class SamplerRatio(Ratio):
    """Importance ratio of each token to what the rollout engine says it sampled with."""

    name = "sampler_ratio"
    paper = "arXiv:2602.04879"
    troubles = ("engine_mismatch",)
    reads = frozenset({"logp_sampler"})
    excludes = frozenset({"sampler_correction"})

    def ratio(self, rows: TokenBatch, logp: Tensor) -> Tensor:
        return (logp - rows.require("logp_sampler", self.name)).clamp(-20.0, 20.0).exp()

    def formula(self) -> str:
        return "r = pi(y) / pi_sampler(y)"
