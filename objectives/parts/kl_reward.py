"""Divergence from a frozen reference in the reward (Ouyang et al., arXiv:2203.02155; RLOO; REINFORCE++).

    R_i <- R_i - beta sum_t k1_it,   k1_it = log pi_old(y_it) - log pi_ref(y_it)
    to_go:  R_it <- R_i - beta sum_{s >= t} k1_is

Estimated at the policy of the rollouts and not differentiated.
"""

from dataclasses import dataclass

from objectives.batch import TokenBatch
from objectives.kinds import Reward
from objectives.lazy import Tensor
from objectives.order import running_sum
from objectives.part import parameter
from objectives.zoo import register


@register
@dataclass(frozen=True)
class KLReward(Reward):
    """Takes the divergence from the reference off the reward, of the response or of what is left of it."""

    name = "kl_reward"
    paper = "arXiv:2203.02155"
    troubles = ("noisy_rewards", "entropy_explosion")
    late = True
    reads = frozenset({"logp_old", "logp_ref"})
    beta: float = parameter(0.05, "[0, inf)", "weight of the divergence in the reward")
    to_go: bool = parameter(False, None, "per token: the divergence from there to the response's end")

    @property
    def per_token(self) -> bool:
        return self.to_go

    def shaping(self, batch: TokenBatch) -> Tensor:
        divergence = batch.require("logp_old", self.name) - batch.require("logp_ref", self.name)
        if not self.to_go:
            return -self.beta * divergence.sum(1)
        return -self.beta * running_sum(divergence.flip(1), 1).flip(1) * batch.mask

    def formula(self) -> str:
        return f"R -= {self.beta:g} * sum of log p_old / p_ref" + (" from the token on" if self.to_go else "")
