"""FIPO: future-KL weights (arXiv:2603.19835, as ms-swift has it).

    f_t = clip( exp( sum_{s >= t} gamma^(s-t) z_s 1[r_s <= 10] ), 1, 1.2 ),   z = log pi/pi_old,  gamma = 2^(-1/32)
    f_t <= 1 where A < 0 and r_t > 4;   l_t = f_t times the clipped objective, dual_clip(cap=10)

A token counts more where the policy has come to prefer what follows it. f is not differentiated and enters through the
advantage, which is the same, for it is positive. There one number, delta, is the ratio that has no say and the dual
clip; here fipo(cap=...) and dual_clip(cap=...), of which adding fipo brings the first alone. low=0.8 lets f fall too.
Open: its base; here GRPO's clip at 0.2, mean over all tokens. Deviations: each log-ratio is clamped to [-20, 20];
tokens that the loss does not see are not there, and do not lengthen the distance either. There they do: 9 of 20 batches
with tools' tokens differ, by 0.04 % of the largest push (median; 0.2 % at most).
"""

from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.kinds import Weight
from objectives.lazy import Tensor, torch
from objectives.part import parameter
from objectives.parts.clip import Clip
from objectives.parts.dual_clip import DualClip
from objectives.parts.group_norm import GroupNorm
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio, log_ratio
from objectives.scan import recurrence
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class FutureKL(Weight):
    """Weighs each token by how much the policy has moved towards what follows it."""

    name = "future_kl"
    paper = "arXiv:2603.19835"
    troubles = ("credit",)
    reads = frozenset({"logp", "logp_old"})
    planned = True
    half_life: float = parameter(32.0, "(0, inf)", "tokens after which a log-ratio counts half")
    low: float = parameter(1.0, "(0, 1]", "smallest weight")
    high: float = parameter(1.2, "[1, inf)", "largest weight")
    cap: float = parameter(10.0, "(0, inf)", "ratio above which a token has no say in the sum")
    safe: float = parameter(4.0, "(0, inf)", "ratio above which a bad token is not weighed more")

    def weight(self, batch: TokenBatch) -> Tensor:
        change = log_ratio(batch, batch.require("logp", self.name), self.name)
        ratio = change.exp()
        counted = torch.where(batch.mask & (ratio <= self.cap), change, 0.0)
        decay = torch.ones_like(change).masked_fill(batch.mask, 2 ** (-1 / self.half_life))
        future = recurrence(decay.flip(1), counted.flip(1)).flip(1)
        weight = future.exp().clamp(self.low, self.high)
        risky = (batch.require("advantage", self.name) < 0) & (ratio > self.safe)
        return torch.where(risky, weight.clamp(max=1.0), weight)

    def formula(self) -> str:
        total = f"sum of log p/p_old from the token on, halved in {self.half_life:g}, without p/p_old > {self.cap:g}"
        return f"A *= exp({total}) in [{self.low:g}, {self.high:g}], at most 1 where A < 0 and p/p_old > {self.safe:g}"


recipe(
    "fipo",
    paper="arXiv:2603.19835",
    summary="tokens weighed by how the policy has moved on what follows them",
    variants={"paper": (GroupNorm(), FutureKL(), TokenRatio(), Clip(), DualClip(cap=10.0), TokenMean(), SinglePass())},
    contribution=("future_kl",),
    doc=__doc__,
)
