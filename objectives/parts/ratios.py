"""The importance ratio of a token, of a response, or to the engine that sampled."""

from objectives.batch import TokenBatch
from objectives.kinds import Ratio
from objectives.lazy import Tensor
from objectives.part import parameter
from objectives.zoo import register


@register
class TokenRatio(Ratio):
    """Importance ratio of each token; exactly 1 with its gradient while the policy has not moved.

    The importance ratio of PPO (Schulman et al., arXiv:1707.06347).

        r_it = pi(y_it) / pi_old(y_it)

    Deviations: log pi - log pi_old is clamped to [-20, 20] before the exponential, so that no ratio overflows.
    """

    name = "token_ratio"
    acts_on_policy = False
    paper = "arXiv:1707.06347"
    reads_once_moved = frozenset({"logp_old"})

    def ratio(self, rows: TokenBatch, logp: Tensor) -> Tensor:
        return log_ratio(rows, logp, self.name).exp()

    def formula(self) -> str:
        return "r = pi(y) / pi_old(y)"


def log_ratio(rows: TokenBatch, logp: Tensor, reader: str) -> Tensor:
    """[n, T] log pi - log pi_old of each token, clamped to [-20, 20], with gradient."""
    unmoved = rows.on_policy and rows.logp_old is None
    return (logp - (logp.detach() if unmoved else rows.require("logp_old", reader))).clamp(-20.0, 20.0)


@register
class SequenceRatio(Ratio):
    """One importance ratio for all tokens of a response.

    The importance ratio of a whole response (GSPO, Zheng et al., arXiv:2507.18071, eq. 7 and 14).

        s_i = exp( mean_t (log pi(y_it) - log pi_old(y_it)) ),   r_it = sg[s_i] pi(y_it) / sg[pi(y_it)]

    The gradient is that of the token form, which is GSPO's own where all tokens of a response have one advantage, and
    which neither masks nor passes can leak through. The mean is over the tokens that the loss sees, masked or not.
    norm=sum takes the product of all ratios (TRL's RLOO, TOPR). Deviations: each token's log-ratio is clamped to [-20,
    20], and so is the product's.
    """

    name = "sequence_ratio"
    acts_on_policy = False
    paper = "arXiv:2507.18071"
    failure_modes = ("mixture_of_experts", "many_epochs")
    reads_once_moved = frozenset({"logp_old"})
    norm: str = parameter("mean", ("mean", "sum"), "how the log-ratios of a response's tokens are put together")

    def ratio(self, rows: TokenBatch, logp: Tensor) -> Tensor:
        total = (log_ratio(rows, logp.detach(), self.name) * rows.mask).sum(1, keepdim=True)
        if self.norm == "mean":
            total = total / rows.mask.sum(1, keepdim=True).clamp(min=1)
        return total.clamp(-20.0, 20.0).exp() * (logp - logp.detach()).exp()

    def formula(self) -> str:
        return f"r = sg[exp({self.norm} over the response of log pi(y) / pi_old(y))] pi(y) / sg[pi(y)]"


@register
class SamplerRatio(Ratio):
    """Importance ratio of each token to what the rollout engine says it sampled with.

    The importance ratio to the engine that sampled (DPPO, arXiv:2602.04879; prime-rl).

        r_it = pi(y_it) / pi_sampler(y_it)

    One ratio for both, the policy's updates and the engine's mismatch, so that sampler_correction, which would count
    the mismatch twice, is refused beside it. Deviations: the log-ratio is clamped to [-20, 20].
    """

    name = "sampler_ratio"
    paper = "arXiv:2602.04879"
    failure_modes = ("engine_mismatch",)
    reads = frozenset({"logp_sampler"})
    excludes = frozenset({"sampler_correction"})

    def ratio(self, rows: TokenBatch, logp: Tensor) -> Tensor:
        return (logp - rows.require("logp_sampler", self.name)).clamp(-20.0, 20.0).exp()

    def formula(self) -> str:
        return "r = pi(y) / pi_sampler(y)"
