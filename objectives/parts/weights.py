"""Weights of the advantage that several methods use."""

from objectives.batch import TokenBatch
from objectives.kinds import Weight
from objectives.lazy import Tensor, torch
from objectives.part import parameter
from objectives.zoo import register

LEVELS = ("token", "product", "geometric")


@register
class SamplerCorrection(Weight):
    """Weighs each token by how much likelier the trainer's policy makes it than the engine that sampled it, bounded.

    Truncated importance sampling for rollouts of another engine (Yao et al., Your Efficient RL Framework Secretly
    Brings You Off-Policy RL Training, 2025, https://fengyao.notion.site/off-policy-rl).

        A'_it = min( w_it, cap ) A_i,   w_it = pi_old(y_it) / pi_sampler(y_it)
        level=product:  w_i = product over the response's tokens;   level=geometric:  its |y_i|-th root
        outside=drop:   w where low <= w <= cap, 0 elsewhere (IcePop, arXiv:2510.18855)

    pi_sampler is what the rollout engine says it sampled with; kernels, caches and dtypes make it differ from the
    trainer's pi_old. Names in use: truncated importance sampling (TIS) clamps tokens, its sequence form has
    level=product; masked importance sampling (MIS) drops (TRL: level=product, cap=3). What ms-swift calls "sequence" is
    level=geometric.
    Open: the cap; 2 is what the authors' verl examples use. Left out: verl's division by the mean weight.
    Deviations: each log pi_old - log pi_sampler is clamped to [-20, 20], and so is their sum; the weight enters through
    the advantage, which is the same as a factor on the clipped objective, for it is never negative.
    """

    name = "sampler_correction"
    paper = "Yao et al. 2025"
    failure_modes = ("engine_mismatch", "precision")
    reads = frozenset({"logp_old", "logp_sampler"})
    cap: float | None = parameter(2.0, "(0, inf)", "largest weight; none: no bound")
    low: float = parameter(0.0, "[0, inf)", "smallest weight")
    level: str = parameter("token", LEVELS, "whose ratio: the token's, or the response's product or geometric mean")
    outside: str = parameter("clamp", ("clamp", "drop"), "a weight outside becomes the bound, or 0")

    def weight(self, batch: TokenBatch) -> Tensor:
        weight = mismatch(batch, self.level, self.name).exp()
        bounded = weight.clamp(self.low, self.cap)
        return bounded if self.outside == "clamp" else torch.where(bounded == weight, weight, 0.0)

    def formula(self) -> str:
        ratio = {"token": "", "product": "product of ", "geometric": "geometric mean of "}[self.level]
        if self.outside == "clamp" and not self.low:
            return f"A *= {ratio}p_old / p_sampler" + ("" if self.cap is None else f", at most {self.cap:g}")
        band = f"[{self.low:g}, {'inf' if self.cap is None else f'{self.cap:g}'}]"
        return f"A *= {ratio}p_old / p_sampler" + (f" in {band}" if self.outside == "clamp" else f", 0 outside {band}")


def mismatch(batch: TokenBatch, level: str, reader: str) -> Tensor:
    """[N, T] logarithm of pi_old / pi_sampler of each token, of the response's product, or of its geometric mean."""
    difference = batch.require("logp_old", reader) - batch.require("logp_sampler", reader)
    difference = difference.clamp(-20.0, 20.0) * batch.mask
    if level == "token":
        return difference
    total = difference.sum(1, keepdim=True)
    if level == "geometric":
        total = total / batch.mask.sum(1, keepdim=True).clamp(min=1)
    return total.clamp(-20.0, 20.0).expand(batch.mask.shape)
