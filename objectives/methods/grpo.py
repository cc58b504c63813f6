"""GRPO: group-relative policy optimisation (Shao et al., DeepSeekMath, arXiv:2402.03300, eq. 3-4).

    J = E_q (1/G) sum_i (1/|y_i|) sum_t
            { min[ r A, clip(r, 1 - eps, 1 + eps) A ] - beta KL_it }
    A_i = (R_i - mean_group) / std_group,
    KL_it = pi_ref/pi - log(pi_ref/pi) - 1

Open in the paper, and the reading taken: eps = 0.2 (not reported); std with ddof 1 and 1e-6 added (verl; the printed
advantages of later papers confirm ddof 1). Deviations: a reward equal to its group's mean up to rounding, and so every
reward of an equal-reward group, has an advantage of exactly zero.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from objectives.batch import TokenBatch
from objectives.groups import group_centred, group_index, group_sum
from objectives.methods.ppo import Clip, SinglePass, TokenRatio
from objectives.part import Advantage, Aggregate, Part, Penalty, parameter
from objectives.zoo import recipe, register


@register
@dataclass(frozen=True)
class GroupNorm(Advantage):
    """Reward minus the group's mean, over the group's standard deviation (ddof 1)."""

    name = "group_norm"
    paper = "arXiv:2402.03300"
    minimum_group = 2
    eps: float = parameter(1e-6, "[0, inf)", "added to the standard deviation")

    def advantage(self, reward: Tensor, group: Tensor) -> Tensor:
        index, groups = group_index(group)
        centred = group_centred(reward, index, groups)
        size = group_sum(torch.ones_like(reward), index, groups)
        deviation = (group_sum(centred.square(), index, groups) / (size - 1)).sqrt()
        return torch.where(centred == 0, 0.0, centred / (deviation + self.eps)[index])

    def formula(self) -> str:
        return f"A = (R - mean) / (std + {self.eps:g}) over the group"


@register
@dataclass(frozen=True)
class SeqMean(Aggregate):
    """Mean over the tokens of each response, then over responses."""

    name = "seq_mean"
    paper = "arXiv:2402.03300"

    def coefficients(self, batch: TokenBatch, counted: Tensor) -> Tensor:
        responses = batch.mask.any(1).sum().clamp(min=1)
        tokens = counted.sum(1, keepdim=True).clamp(min=1).to(batch.require("advantage", self.name))
        return (1 / (responses * tokens)).expand(batch.mask.shape)

    def formula(self) -> str:
        return "L = mean over responses of the mean over tokens"


@register
@dataclass(frozen=True)
class KL(Penalty):
    """Divergence from the frozen reference, per token, estimated from the sampled token and differentiated directly.

    k1 = log(pi/pi_ref), k2 = k1^2 / 2, k3 = pi_ref/pi - log(pi_ref/pi) - 1 (GRPO's). http://joschu.net/blog/kl-approx.html
    """

    name = "kl"
    paper = "arXiv:2402.03300"
    reads = frozenset({"logp_ref"})
    beta: float = parameter(0.04, "[0, inf)", "weight of the divergence in the loss")
    estimator: str = parameter("k3", ("k1", "k2", "k3"), "which estimator")
    clamp: float | None = parameter(None, "(0, inf)", "bound of |log pi - log pi_ref|; it also bounds the result by 10")

    def penalty(self, rows: TokenBatch, logp: Tensor, entropy: Tensor | None) -> Tensor:
        difference = logp - rows.require("logp_ref", self.name)
        if self.clamp is not None:
            difference = difference.clamp(-self.clamp, self.clamp)
        if self.estimator == "k1":
            estimate = difference
        elif self.estimator == "k2":
            estimate = difference.square() / 2
        else:
            estimate = torch.expm1(-difference) + difference
        return self.beta * (estimate if self.clamp is None else estimate.clamp(-10.0, 10.0))

    def formula(self) -> str:
        return f"+ {self.beta:g} * {self.estimator}(pi, pi_ref)"


GRPO: tuple[Part, ...] = (GroupNorm(), TokenRatio(), Clip(), SeqMean(), KL(), SinglePass())

recipe(
    "grpo",
    paper="arXiv:2402.03300",
    summary="group-relative advantages in PPO's surrogate, mean per response, KL to the reference",
    variants={"paper": GRPO},
    contribution=("group_norm",),
    doc=__doc__,
)
