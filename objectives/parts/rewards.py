"""What is added to the reward of a response."""

from objectives.batch import TokenBatch
from objectives.errors import ObjectiveError
from objectives.kinds import Reward
from objectives.lazy import Tensor
from objectives.ops import running_sum
from objectives.part import parameter
from objectives.parts.penalties import KL
from objectives.zoo import register


@register
class SoftOverlong(Reward):
    """Soft overlong punishment (eq. 13): a penalty that grows from 0 to 1 over the last `cache` tokens of the limit.

    Soft overlong punishment of DAPO (Yu et al., arXiv:2503.14476, eq. 13).

        R_i += clip( (limit - cache - |y_i|) / cache, -1, 0 )

    Deviations: limit and cache follow the run's response limit unless given, in the paper's proportion 4096/20480.
    |y_i| counts what the policy wrote, and nothing that an environment did.
    """

    name = "soft_overlong"
    paper = "arXiv:2503.14476"
    failure_modes = ("truncation", "length_growth")
    max_length: int | None = parameter(None, "[1, inf)", "limit in tokens; none: the run's response limit")
    cache: int | None = parameter(None, "[1, inf)", "tokens over which the penalty grows; none: a fifth of the limit")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_length is not None and self.cache is not None and self.cache > self.max_length:
            raise ObjectiveError(f"soft_overlong: cache={self.cache} exceeds max_length={self.max_length}")

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"reward"}) if self.max_length else frozenset({"reward", "max_length"})

    def shaping(self, batch: TokenBatch) -> Tensor:
        batch.require_all(self.needs, self.name)
        limit = self.max_length or batch.max_length
        assert limit is not None
        cache = self.cache or limit / 5
        length = batch.lengths.to(batch.require("reward", self.name))
        return ((limit - cache - length) / cache).clamp(-1.0, 0.0)

    def formula(self) -> str:
        limit = self.max_length or "limit"
        cache = self.cache or f"({limit}/5)"
        return f"R += clip(({limit} - {cache} - |y|) / {cache}, -1, 0)"


@register
class KLReward(Reward):
    """Takes the divergence from the reference off the reward, of the response or of what is left of it.

    Divergence from a frozen reference in the reward (Ouyang et al., arXiv:2203.02155; RLOO; REINFORCE++).

        R_i <- R_i - beta sum_t k1_it,   k1_it = log pi_old(y_it) - log pi_ref(y_it)
        to_go:  R_it <- R_i - beta sum_{s >= t} k1_is

    Estimated at the policy of the rollouts and not differentiated.
    """

    name = "kl_reward"
    paper = "arXiv:2203.02155"
    failure_modes = ("noisy_rewards", "entropy_explosion")
    purpose = KL.purpose
    late = True
    reads = frozenset({"logp_old", "logp_ref"})
    beta: float = parameter(0.05, "[0, inf)", "weight of the divergence in the reward", idle=0)
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
