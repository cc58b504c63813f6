"""Terms added to the loss: divergences and entropy."""

from collections.abc import Iterator, Mapping
from typing import ClassVar

from objectives.batch import Prepared, TokenBatch
from objectives.errors import ObjectiveError
from objectives.kinds import Penalty
from objectives.lazy import Tensor, torch
from objectives.part import REQUIRED, Part, parameter
from objectives.parts.ratios import log_ratio
from objectives.zoo import register


@register
class KL(Penalty):
    """Divergence from the frozen reference, per token, estimated from the sampled token and differentiated directly.

    Divergence from a frozen reference in the loss (GRPO, Shao et al., arXiv:2402.03300, eq. 4).

    k1 = log(pi/pi_ref), k2 = k1^2 / 2, k3 = pi_ref/pi - log(pi_ref/pi) - 1 (GRPO's).
    http://joschu.net/blog/kl-approx.html
    """

    name = "kl"
    paper = "arXiv:2402.03300"
    failure_modes = ("noisy_rewards", "entropy_explosion")
    purpose: ClassVar[str] = "a divergence from the reference"
    anchor: ClassVar[str] = "ref"
    """Whose log-probs it is measured to."""
    reads = frozenset({"logp_ref"})
    beta: float = parameter(0.04, "[0, inf)", "weight of the divergence in the loss", idle=0)
    estimator: str = parameter("k3", ("k1", "k2", "k3"), "which estimator")
    clamp: float | None = parameter(None, "(0, inf)", "bound of the log-ratio's size; it also bounds the result by 10")

    def notices(self, parts: Mapping[str, Part]) -> Iterator[str]:
        yield from super().notices(parts)
        if self.estimator == "k1":
            yield f"{self.name}(estimator=k1): no reference in its gradient, which lowers all tokens. Write k2 or k3."

    def penalty(self, rows: TokenBatch, logp: Tensor, entropy: Tensor | None) -> Tensor:
        difference = logp - rows.require(f"logp_{self.anchor}", self.name)
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
        clamp = "" if self.clamp is None else f", log p/p_{self.anchor} within {self.clamp:g}"
        return f"+ {self.beta:g} * {self.estimator}(pi, pi_{self.anchor}{clamp})"


@register
class UnbiasedKL(Penalty):
    """Divergence from the frozen reference, weighed by how much likelier the policy has made the token.

    An unbiased estimate of the divergence's gradient off-policy (DeepSeek-V3.2, arXiv:2512.02556).

        + beta r (pi_ref/pi - log(pi_ref/pi) - 1),   r = pi/pi_old, differentiated too

    k3 weighed by the importance ratio: its expectation over the old policy is the divergence of the current one. As TRL
    1.16.0's GRPOTrainer has it with use_bias_correction_kl and ratios of tokens, beside which tests run it. Open: beta;
    TRL's example takes 0.001. Deviations: log-ratios are clamped to [-20, 20].
    """

    name = "unbiased_kl"
    paper = "arXiv:2512.02556"
    failure_modes = ("noisy_rewards", "entropy_explosion")
    purpose = KL.purpose
    reads = frozenset({"logp_ref"})
    reads_once_moved = frozenset({"logp_old"})
    beta: float = parameter(0.04, "[0, inf)", "weight of the divergence in the loss", idle=0)

    def penalty(self, rows: Prepared, logp: Tensor, entropy: Tensor | None) -> Tensor:
        difference = logp - rows.require("logp_ref", self.name)
        estimate = torch.expm1(-difference) + difference
        return self.beta * log_ratio(rows, logp, self.name).exp() * estimate

    def formula(self) -> str:
        return f"+ {self.beta:g} * pi(y) / pi_old(y) (p_ref / p + log p/p_ref - 1)"


@register
class Drift(Penalty):
    """Holds the sampled tokens' log-probs near those that they were sampled with.

    A penalty on moving away from the policy of the rollouts, or from the engine that sampled (verl's dro; prime-rl).

        square: z^2,  k2: z^2 / 2,  abs: |z|      z = log pi - log pi_old, or log pi - log pi_sampler

    Neither has a published weight, so that one is asked for. DRO is k2 to the old policy beside a policy gradient
    without ratio; prime-rl's loss takes 0.001 * square to the sampler.
    """

    name = "drift"
    acts_on_policy = False
    paper = "prime-rl 2026"
    failure_modes = ("many_epochs", "stale_rollouts")
    purpose: ClassVar[str] = "a penalty on leaving the old policy"
    reads = frozenset({"logp:to"})
    beta: float = parameter(REQUIRED, "[0, inf)", "weight of the penalty in the loss", example=0.1, idle=0)
    estimator: str = parameter("k2", ("square", "k2", "abs"), "of the difference of log-probs")
    to: str = parameter("old", ("old", "sampler"), "near whom: the policy of the rollouts, or the engine")

    def penalty(self, rows: TokenBatch, logp: Tensor, entropy: Tensor | None) -> Tensor:
        difference = logp - rows.require(f"logp_{self.to}", self.name)
        if self.estimator == "abs":
            return self.beta * difference.abs()
        return self.beta * difference.square() / (2 if self.estimator == "k2" else 1)

    def formula(self) -> str:
        return f"+ {self.beta:g} * {self.estimator}(log p/p_{self.to})"


@register
class EntropyBonus(Penalty):
    """Adds the policy's entropy to the objective.

    Entropy bonus (Mnih et al., arXiv:1602.01783): a reward for keeping the next-token distribution wide.

    L -= coefficient * mean of H_it, differentiated through the full-vocabulary entropy
    """

    name = "entropy_bonus"
    paper = "arXiv:1602.01783"
    failure_modes = ("entropy_collapse", "diversity")
    purpose: ClassVar[str] = "an entropy bonus"
    needs_entropy_gradient = True
    coefficient: float = parameter(0.001, "(-inf, inf)", "weight of the entropy in the objective", idle=0)

    def penalty(self, rows: TokenBatch, logp: Tensor, entropy: Tensor | None) -> Tensor:
        if entropy is None:
            raise ObjectiveError("entropy_bonus: the loss was called without the policy's entropy")
        return -self.coefficient * entropy

    def formula(self) -> str:
        return f"{'-' if self.coefficient >= 0 else '+'} {abs(self.coefficient):g} * H"
