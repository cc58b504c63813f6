"""Off-policy sequence masking (DeepSeek-V3.2, arXiv:2512.02556): bad responses that the policy has left are dropped.

    I_it = 0  iff  A_it < 0  and  mean_t ( log pi_anchor(y_it) - log pi(y_it) ) > delta

The anchor is the policy of the rollouts, or the engine that sampled. Silenced tokens stay in the denominator (TRL,
slime); ms-swift takes them out. No delta is published, so that one is asked for: TRL's example has 0.5, slime 1e-4.
Deviations: each difference is clamped to [-20, 20].
"""

from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.kinds import Mask
from objectives.lazy import Tensor, torch
from objectives.part import ASKED, parameter
from objectives.zoo import register


@register
@dataclass(frozen=True)
class OffPolicyMask(Mask):
    """Silences responses with a negative advantage that have become much less likely since they were sampled."""

    name = "off_policy_mask"
    paper = "arXiv:2512.02556"
    troubles = ("stale_rollouts",)
    delta: float = parameter(ASKED, "[0, inf)", "mean fall of the log-prob above which a bad response is dropped")
    anchor: str = parameter("old", ("old", "sampler"), "the fall since whom: the policy of the rollouts, or the engine")
    shrinks_denominator = False

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"logp", f"logp_{self.anchor}"})

    def keeps(self, batch: TokenBatch) -> Tensor:
        fall = batch.require(f"logp_{self.anchor}", self.name) - batch.require("logp", self.name)
        fall = (fall.clamp(-20.0, 20.0) * batch.mask).sum(1, keepdim=True)
        far = fall / batch.mask.sum(1, keepdim=True).clamp(min=1) > self.delta
        return batch.mask & ~torch.logical_and(far, batch.require("advantage", self.name) < 0)

    def formula(self) -> str:
        return f"not (A < 0 and mean of log p_{self.anchor} / p > {self.delta:g})"
