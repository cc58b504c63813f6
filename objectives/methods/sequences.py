"""Whole responses: one importance ratio, or one smoothed along the response."""

import math

from objectives.batch import TokenBatch
from objectives.ops import Tensor, recurrence, torch
from objectives.part import Bounds, Extra, Ratio, Surrogate, parameter
from objectives.parts.losses import log_ratio
from objectives.recipes import recipe
from objectives.zoo import register

recipe(
    "gspo",
    "grpo+sequence_ratio+clip(low=3e-4)+clip_higher(high=4e-4)+seq_mean-kl",
    paper="arXiv:2507.18071",
    summary="one importance ratio for a whole response, clipped within a few ten-thousandths",
    essence=("sequence_ratio",),
)
"""GSPO: group sequence policy optimisation (Zheng et al., arXiv:2507.18071, eq. 5-7, 13-14).

    J = (1/G) sum_i min( s_i A_i, clip(s_i, 1 - 3e-4, 1 + 4e-4) A_i ),   s_i = exp( mean_t log pi/pi_old )

Adding `gspo` to another objective brings the ratio with its tiny clip widths and its mean over responses. The gradient
is that of the token form (eq. 13), so that weights per token work too; with one advantage per response it is the same.
An upper bound that is added to it (clip_higher, or dapo with its 0.28) takes the place of its own.
Means are over the tokens that the policy chose, not over what an environment wrote.
"""


recipe(
    "luspo",
    "gspo+sequence_ratio+clip(low=2e-3)+clip_higher(high=2.5e-3)+seq_sum",
    paper="arXiv:2602.05261",
    summary="GSPO with the sum over tokens instead of their mean, so that length costs no weight",
    essence=("sequence_ratio", "seq_sum"),
)
"""LUSPO: length-unbiased sequence policy optimisation (arXiv:2602.05261).

    J = (1/G) sum_i |y_i| min( s_i A_i, clip(s_i, 1 - 2e-3, 1 + 2.5e-3) A_i ),   s_i = exp( mean_t log pi/pi_old )

GSPO whose responses weigh as much as they are long: the sum over tokens stands where GSPO has their mean, and its clip
is wider. Adding it brings ratio, widths and sum. The widths are TRL's documentation's; the paper was not read.
Lengths are those of the policy's tokens.
"""


@register
class GeometricRatio(Ratio):
    """Geometric mean of a response's ratios, each clipped first, pessimistically."""

    acts_on_policy = False
    failure_modes = ("mixture_of_experts", "stale_rollouts")
    reads_once_moved = frozenset({"logp_old"})
    printed = "r = sg[exp(mean over the response of z)] exp(z) / sg[exp(z)]"
    low: float = parameter(0.4, "[0, inf)", "log-ratios are clipped to -low below where A < 0")
    high: float = parameter(0.4, "[0, inf)", "log-ratios are clipped to high above where A >= 0")

    def ratio(self, rows: TokenBatch, logp: Tensor) -> Tensor:
        change = log_ratio(rows, logp.detach(), self.name)
        falling = rows.require("advantage", self.name) < 0
        clipped = torch.where(falling, change.clamp(min=-self.low), change.clamp(max=self.high))
        mean = (clipped * rows.mask).sum(1, keepdim=True) / rows.mask.sum(1, keepdim=True).clamp(min=1)
        return mean.exp() * torch.where(clipped == change, logp - logp.detach(), 0.0).exp()

    def where(self) -> str:
        change = "log pi(y) / pi_old(y)"
        return f"z = max({change}, -{self.low:g}) where A < 0, min({change}, {self.high:g}) where A >= 0"


recipe(
    "gmpo",
    "grpo+geometric_ratio+unclipped+seq_mean-kl",
    paper="arXiv:2507.20673",
    summary="the geometric mean of a response's ratios, each clipped before it is taken",
    essence=("geometric_ratio",),
)
"""GMPO: geometric-mean policy optimisation (Zhao et al., arXiv:2507.20673).

    J = (1/G) sum_i s_i A_i,   s_i = exp( (1/|y_i|) sum_t clip*(log pi/pi_old) )
    clip*(z) = min(z, high) where A >= 0, max(z, -low) where A < 0

Each log-ratio is clipped before the geometric mean: one token moves a response's ratio little, and a clipped token has
no gradient. The widths, 0.4, are of logarithms; those of other clips mean something else. The advantage's sign is the
token's own. Deviations: each log-ratio is clamped to [-20, 20]; the gradient is that of the token form, as in gspo, so
that neither masks nor passes can leak through. verl's example adds kl(beta=0.001).
|y_i| and t are of the policy's tokens.
"""


@register
class KalmanRatio(Ratio):
    """Importance ratio whose logarithm is filtered along the response."""

    acts_on_policy = False
    failure_modes = ("mixture_of_experts", "stale_rollouts")
    reads_once_moved = frozenset({"logp_old"})
    printed = "r = sg[exp(Kalman filter of log pi(y) / pi_old(y) with noise {q:g})] pi(y) / sg[pi(y)]"
    q: float = parameter(1e-6, "(0, inf)", "noise of the process over that of the observation")

    def ratio(self, rows: TokenBatch, logp: Tensor) -> Tensor:
        gain = self.gains(rows.mask.cumsum(1)).to(logp) * rows.mask
        change = log_ratio(rows, logp.detach(), self.name)
        return (recurrence(1 - gain, gain * change) + (logp - logp.detach())).exp()

    def gains(self, count: Tensor) -> Tensor:
        """K_n in float64 for every n of `count`, by the eigenvalues of K -> (K + q) / (K + q + 1), n times from 0."""
        largest = 1 + self.q / 2 + math.sqrt(self.q + self.q * self.q / 4)
        here, before = (-torch.expm1(-2 * math.log(largest) * n) for n in (count.double(), count.double() - 1))
        return self.q * here / ((1 + self.q) * here - before / largest)


recipe(
    "kpo",
    "grpo+kalman_ratio+clip(low=3e-4)+clip_higher(high=4e-4)+seq_mean-kl",
    paper="arXiv:2602.10609",
    summary="importance ratios smoothed along the response by a Kalman filter",
    essence=("kalman_ratio",),
)
"""KPO: a Kalman filter for the importance ratio (He et al., arXiv:2602.10609).

    x_t = (1 - K_t) x_{t-1} + K_t log pi/pi_old,   K_t = (K_{t-1} + q) / (K_{t-1} + q + 1),   x_0 = K_0 = 0
    r_t = exp(sg[x_t]) pi / sg[pi];   clip(r_t, 1 - 3e-4, 1 + 4e-4), mean per response

q is the process noise over the observation noise, Q/R. K_t is about t q at first, so that the first hundreds of tokens
have a ratio near 1, which is why GSPO's tiny widths go with it.
Deviations: tokens that the loss does not see (a tool's) are not there, whereas the code lets them pull the filter to 0
(by less than 1e-5 of the largest gradient in 20 batches that have some);
each log-ratio is clamped to [-20, 20]; the gains are exact, those of the code's closed form are off by up to 2.4 %.
An upper bound that it is added to gives way to its own.
"""


@register
class GammaGate(Surrogate):
    """Policy gradient whose weight is 1 at a ratio of 1 and falls smoothly on both sides."""

    acts_on_policy = False
    failure_modes = ("stale_rollouts", "mixture_of_experts")
    k_good: float = parameter(2.0, "[0, inf)", "power of the ratio where A >= 0")
    l_good: float = parameter(3.0, "[0, inf)", "rate at which a larger ratio counts less where A >= 0")
    k_bad: float = parameter(3.0, "[0, inf)", "power of the ratio where A < 0")
    l_bad: float = parameter(2.0, "[0, inf)", "rate at which a larger ratio counts less where A < 0")

    def loss(self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Extra) -> Tensor:
        ratio = ratio.detach()
        good = self.l_good + self.k_good * ratio.log() - self.l_good * ratio
        bad = self.l_bad + self.k_bad * ratio.log() - self.l_bad * ratio
        return -torch.where(advantage < 0, bad, good).clamp(max=20.0).exp() * advantage * (logp - logp.detach()).exp()

    def formula(self) -> str:
        good, bad = (self.l_good, self.k_good), (self.l_bad, self.k_bad)
        phi = "exp({0:g} + {1:g} ln r - {0:g} r)"
        return f"sg[{phi.format(*good)} where A >= 0, {phi.format(*bad)} where A < 0] A log p"


recipe(
    "vespo",
    "grpo+sequence_ratio(norm=sum)+gamma_gate+token_mean-kl",
    paper="arXiv:2602.10693",
    summary="a smooth gate of the sequence's importance weight",
    contribution=("sequence_ratio", "gamma_gate"),
    essence=("gamma_gate",),
)
"""VESPO: a gamma-shaped gate of the sequence's importance weight (arXiv:2602.10693, as TRL has it).

    J = (1 / sum_i |y_i|) sum_i sum_t sg[phi(W_i)] A_i log pi(y_it),   W_i = prod_t pi/pi_old
    phi(W) = exp(l + k ln W - l W),   (k, l) = (2, 3) where A >= 0, (3, 2) where A < 0

phi(1) = 1; it falls on both sides, above exponentially, so that responses far from the old policy teach nothing. It is
meant for the product of a response's ratios, which the recipe brings; on the ratios of tokens it is something else.
Deviations: the product's logarithm is clamped to [-20, 20] (TRL: the weight to 1e-8 and e^20), phi to e^20; the loss is
-phi A exp(log pi - sg[log pi]), of the same gradient. TRL folds the sampling engine's weight into W; here it would be
sampler_correction, beside it.
Lengths and products are of the policy's tokens.
"""
