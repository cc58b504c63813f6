"""Masks by how far trainer, policy and sampling engine are apart."""

import math

from objectives.batch import TokenBatch
from objectives.errors import ObjectiveError
from objectives.kinds import Mask
from objectives.lazy import Tensor, torch
from objectives.part import REQUIRED, parameter
from objectives.parts.weights import LEVELS, mismatch
from objectives.zoo import register


@register
class SamplerMask(Mask):
    """Masks responses (or tokens) that trainer and sampling engine find differently likely.

    Rejection of what the sampling engine and the trainer disagree on (ProRL v2 in NeMo-RL).

        I_it = 1[ low <= w_it <= high ],   w as in sampler_correction: of the token, or of the response

    As it stands, the mask of NeMo-RL's seq-mask-tis: responses whose geometric mean is in [0.999, 1.002]; with it goes
    sampler_correction(cap=none). Masked tokens stay in the denominator unless shrinks=true. verl's rollout_rs is the
    inverse: its k1 is log(pi_sampler/pi_old), and "0.9_1.2" there is low=1/1.2, high=1/0.9 here.
    """

    name = "sampler_mask"
    paper = "NeMo-RL 2026"
    failure_modes = ("engine_mismatch", "mixture_of_experts", "precision")
    reads = frozenset({"logp_old", "logp_sampler"})
    level: str = parameter("geometric", LEVELS, "whose ratio: the token's, or the response's product or geometric mean")
    low: float = parameter(0.999, "[0, inf)", "smallest ratio of trainer to engine that is kept")
    high: float = parameter(1.002, "(0, inf)", "largest ratio that is kept")
    shrinks: bool = parameter(False, None, "whether masked tokens leave the denominator")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low > self.high:
            raise ObjectiveError(f"{self.name}: low={self.low:g} exceeds high={self.high:g}")

    @property
    def shrinks_denominator(self) -> bool:
        return self.shrinks

    def keeps(self, batch: TokenBatch) -> Tensor:
        change = mismatch(batch, self.level, self.name)
        low = math.log(self.low) if self.low > 0 else -math.inf
        return batch.mask & (change >= low) & (change <= math.log(self.high))

    def formula(self) -> str:
        whose = {"token": "", "product": "product of ", "geometric": "geometric mean of "}[self.level]
        return f"{self.low:g} <= {whose}p_old / p_sampler <= {self.high:g}"


@register
class OffPolicyMask(Mask):
    """Masks responses with a negative advantage that have become much less likely since they were sampled.

    Off-policy sequence masking (DeepSeek-V3.2, arXiv:2512.02556): bad responses that the policy has left are dropped.

        I_it = 0  iff  A_it < 0  and  mean_t ( log pi_anchor(y_it) - log pi(y_it) ) > delta

    The anchor is the policy of the rollouts, or the engine that sampled. Masked tokens stay in the denominator (TRL,
    slime); ms-swift takes them out. No delta is published, so that one is asked for: TRL's example has 0.5, slime 1e-4.
    Deviations: each difference is clamped to [-20, 20].
    """

    name = "off_policy_mask"
    acts_on_policy = False
    paper = "arXiv:2512.02556"
    failure_modes = ("stale_rollouts",)
    reads = frozenset({"logp", "logp:anchor"})
    delta: float = parameter(
        REQUIRED, "[0, inf)", "mean fall of the log-prob above which a bad response is dropped", example=0.1
    )
    anchor: str = parameter("old", ("old", "sampler"), "the fall since whom: the policy of the rollouts, or the engine")
    shrinks_denominator = False

    def keeps(self, batch: TokenBatch) -> Tensor:
        fall = batch.require(f"logp_{self.anchor}", self.name) - batch.require("logp", self.name)
        fall = (fall.clamp(-20.0, 20.0) * batch.mask).sum(1, keepdim=True)
        far = fall / batch.mask.sum(1, keepdim=True).clamp(min=1) > self.delta
        return batch.mask & ~torch.logical_and(far, batch.require("advantage", self.name) < 0)

    def formula(self) -> str:
        return f"not (A < 0 and mean of log p_{self.anchor} / p > {self.delta:g})"
