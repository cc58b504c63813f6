"""The parts of the stages from the ratio to the schedule that several methods use."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

from objectives.batch import Prepared, TokenBatch
from objectives.errors import ObjectiveError
from objectives.ops import Tensor, group_index, group_sum, torch
from objectives.part import (
    REQUIRED,
    Aggregate,
    Bounds,
    Extra,
    Mask,
    Modifier,
    Part,
    Penalty,
    Ratio,
    Schedule,
    Surrogate,
    parameter,
)
from objectives.parts.advantages import LEVELS, mismatch
from objectives.zoo import register

# ---- 5: ratios -------------------------------------------------------------------------------------------------------


@register
class TokenRatio(Ratio):
    """Importance ratio of each token; exactly 1 with its gradient while the policy has not moved.

    The importance ratio of PPO (Schulman et al., arXiv:1707.06347).

        r_it = pi(y_it) / pi_old(y_it)

    Deviations: log pi - log pi_old is clamped to [-20, 20] before the exponential, so that no ratio overflows.
    """

    acts_on_policy = False
    paper = "arXiv:1707.06347"
    reads_once_moved = frozenset({"logp_old"})
    printed = "r = pi(y) / pi_old(y)"

    def ratio(self, rows: TokenBatch, logp: Tensor) -> Tensor:
        return log_ratio(rows, logp, self.name).exp()


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

    acts_on_policy = False
    paper = "arXiv:2507.18071"
    failure_modes = ("mixture_of_experts", "many_epochs")
    reads_once_moved = frozenset({"logp_old"})
    printed = "r = sg[exp({norm} over the response of log pi(y) / pi_old(y))] pi(y) / sg[pi(y)]"
    norm: str = parameter("mean", ("mean", "sum"), "how the log-ratios of a response's tokens are put together")

    def ratio(self, rows: TokenBatch, logp: Tensor) -> Tensor:
        total = (log_ratio(rows, logp.detach(), self.name) * rows.mask).sum(1, keepdim=True)
        if self.norm == "mean":
            total = total / rows.mask.sum(1, keepdim=True).clamp(min=1)
        return total.clamp(-20.0, 20.0).exp() * (logp - logp.detach()).exp()


@register
class SamplerRatio(Ratio):
    """Importance ratio of each token to what the rollout engine says it sampled with.

    The importance ratio to the engine that sampled (DPPO, arXiv:2602.04879; prime-rl).

        r_it = pi(y_it) / pi_sampler(y_it)

    One ratio for both, the policy's updates and the engine's mismatch, so that sampler_correction, which would count
    the mismatch twice, is refused beside it. Deviations: the log-ratio is clamped to [-20, 20].
    """

    paper = "arXiv:2602.04879"
    failure_modes = ("engine_mismatch",)
    reads = frozenset({"logp_sampler"})
    excludes = frozenset({"sampler_correction"})
    printed = "r = pi(y) / pi_sampler(y)"

    def ratio(self, rows: TokenBatch, logp: Tensor) -> Tensor:
        return (logp - rows.require("logp_sampler", self.name)).clamp(-20.0, 20.0).exp()


# ---- 6: surrogates and their bounds ----------------------------------------------------------------------------------

FAR_WIDER = 20.0
"""How many times the lower width an upper one may be without a notice; widths for responses are far smaller."""


@register
class Clip(Surrogate):
    """Pessimistic minimum of the ratio's and the clipped ratio's objective; symmetric unless modified.

    PPO's clipped surrogate (Schulman et al., arXiv:1707.06347, eq. 7).

        l_it = -min( r_it A_it, clip(r_it, 1 - low, 1 + high) A_it )

    Without dual_clip the gradient of a negative advantage has the whole ratio, up to e^20 |A|; beyond the ratio's clamp
    it is zero.
    """

    acts_on_policy = False
    paper = "arXiv:1707.06347"
    failure_modes: ClassVar[tuple[str, ...]] = ("many_epochs",)
    reads_bounds = frozenset({"low", "high", "cap"})
    low: float = parameter(0.2, "[0, 1]", "the ratio is clipped to 1 - low below, and to 1 + low above")

    def bounds(self, batch: TokenBatch) -> Bounds:
        return Bounds(self.low, self.low)

    def loss(self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Extra) -> Tensor:
        lower, upper, cap = (_like(bound, ratio) for bound in (1 - bounds.low, 1 + bounds.high, bounds.cap))
        bound = torch.where(advantage > 0, upper, torch.where(ratio < lower, lower, cap))
        return -advantage * torch.where(self.clips(ratio, advantage, bounds), bound, ratio)

    def clips(self, ratio: Tensor, advantage: Tensor, bounds: Bounds) -> Tensor:
        outside = (advantage < 0) & ((ratio < 1 - bounds.low) | (ratio > bounds.cap))
        return outside | (advantage > 0) & (ratio > 1 + bounds.high)

    def numbers(self) -> Mapping[str, str]:
        return {"low": f"{1 - self.low:g}", "high": f"{1 + self.low:g}"}

    def equation(self, numbers: Mapping[str, str]) -> str:
        inner = f"min(r A, clip(r, {numbers['low']}, {numbers['high']}) A)"
        return f"max({inner}, {numbers['cap']} min(A, 0))" if "cap" in numbers else inner


def _like(bound: float | Tensor, ratio: Tensor) -> Tensor:
    return bound.to(ratio) if isinstance(bound, Tensor) else ratio.new_full((), bound)


@register
class ClipHigher(Modifier):
    """Raises the upper clip bound, so that unlikely tokens of good responses can grow further.

    Clip-higher of DAPO (Yu et al., arXiv:2503.14476, section 3.1): the upper bound is a number of its own.
    """

    paper = "arXiv:2503.14476"
    failure_modes = ("exploration", "entropy_collapse")
    sets = frozenset({"high"})
    high: float = parameter(0.28, "[0, inf)", "the ratio is clipped to 1 + high above")

    def notices(self, parts: Mapping[str, Part]) -> Iterator[str]:
        yield from super().notices(parts)
        clip = parts.get(Clip.name)
        if isinstance(clip, Clip) and self.high > FAR_WIDER * clip.low > 0:
            yield (
                f"{self.name}(high={self.high:g}): far wider than "
                f"clip(low={clip.low:g}), so that nearly no token with A > 0 is clipped. Give both the same scale."
            )

    def modify(self, bounds: Bounds, batch: TokenBatch) -> Bounds:
        return replace(bounds, high=self.high)

    def numbers(self) -> Mapping[str, str]:
        return {"high": f"{1 + self.high:g}"}

    def formula(self) -> str:
        return f"upper clip bound {1 + self.high:g}"


@register
class DualClip(Modifier):
    """Bounds the loss of a negative advantage: a ratio above `cap` has no gradient.

    Dual clip (Ye et al., arXiv:1912.09729, eq. 5): the loss of a negative advantage is bounded.

    l_it = -max( min( r A, clip(r) A ), cap A )   where A < 0
    """

    paper = "arXiv:1912.09729"
    failure_modes = ("many_epochs",)
    sets = frozenset({"cap"})
    printed = "max(min(r A, clip(r) A), {cap:g} A) where A < 0"
    cap: float = parameter(3.0, "(1, inf)", "largest ratio that counts where the advantage is negative")

    def modify(self, bounds: Bounds, batch: TokenBatch) -> Bounds:
        return replace(bounds, cap=self.cap)

    def numbers(self) -> Mapping[str, str]:
        return {"cap": f"{self.cap:g}"}


@register
class Unclipped(Surrogate):
    """Ratio times advantage, and nothing that bounds it.

    The importance-weighted objective without a clip: the surrogate that PPO's clip bounds.

    l_it = -r_it A_it
    """

    acts_on_policy = False
    paper = "arXiv:1707.06347"
    printed = "r A"

    def loss(self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Extra) -> Tensor:
        return -ratio * advantage


@register
class Reinforce(Surrogate):
    """Log-prob times advantage, whatever policy sampled.

    The policy gradient without an importance ratio (Williams, Machine Learning 8, 1992).

        l_it = -A_it log pi(y_it)

    Right for one update per rollout only: it does not know that the policy has moved since. Deviations: the loss is
    -A exp(log pi - sg[log pi]), of the same gradient and a value that can be compared.
    """

    acts_on_policy = False
    paper = "doi:10.1007/BF00992696"
    reads_ratio = False
    printed = "A log p"

    def loss(self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Extra) -> Tensor:
        return -advantage * (logp - logp.detach()).exp()


# ---- 7: masks --------------------------------------------------------------------------------------------------------


@register
class SamplerMask(Mask):
    """Masks responses (or tokens) that trainer and sampling engine find differently likely.

    Rejection of what the sampling engine and the trainer disagree on (ProRL v2 in NeMo-RL).

        I_it = 1[ low <= w_it <= high ],   w as in sampler_correction: of the token, or of the response

    As it stands, the mask of NeMo-RL's seq-mask-tis: responses whose geometric mean is in [0.999, 1.002]; with it goes
    sampler_correction(cap=none). Masked tokens stay in the denominator unless shrinks=true. verl's rollout_rs is the
    inverse: its k1 is log(pi_sampler/pi_old), and "0.9_1.2" there is low=1/1.2, high=1/0.9 here.
    """

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

    acts_on_policy = False
    paper = "arXiv:2512.02556"
    failure_modes = ("stale_rollouts",)
    reads = frozenset({"logp", "logp:anchor"})
    delta: float = parameter(
        REQUIRED, "[0, inf)", "mean fall of the log-prob above which a bad response is dropped", example=0.1
    )
    anchor: str = parameter("old", ("old", "sampler"), "the fall since whom: the policy of the rollouts, or the engine")
    shrinks_denominator = False
    printed = "not (A < 0 and mean of log p_{anchor} / p > {delta:g})"

    def notices(self, parts: Mapping[str, Part]) -> Iterator[str]:
        yield from super().notices(parts)
        clip = parts.get(Clip.name)
        is_clipped = isinstance(clip, Clip) and SequenceRatio.name in parts and math.exp(-self.delta) <= 1 - clip.low
        if is_clipped and self.anchor == "old":
            yield f"{self.term()}: changes nothing, as the clip cuts off what it masks. Write -{self.qualified_name}."

    def keeps(self, batch: TokenBatch) -> Tensor:
        fall = batch.require(f"logp_{self.anchor}", self.name) - batch.require("logp", self.name)
        fall = (fall.clamp(-20.0, 20.0) * batch.mask).sum(1, keepdim=True)
        far = fall / batch.mask.sum(1, keepdim=True).clamp(min=1) > self.delta
        return batch.mask & ~torch.logical_and(far, batch.require("advantage", self.name) < 0)


# ---- 8: denominators -------------------------------------------------------------------------------------------------


@register
class SeqMean(Aggregate):
    """Mean over the tokens of each response, then over responses.

    GRPO's denominators (Shao et al., arXiv:2402.03300, eq. 3).
    """

    paper = "arXiv:2402.03300"
    printed = "L = mean over responses of the mean over tokens"

    def coefficients(self, batch: TokenBatch, counted: Tensor) -> Tensor:
        responses = batch.mask.any(1).sum().clamp(min=1)
        tokens = counted.sum(1, keepdim=True).clamp(min=1).to(batch.require("advantage", self.name))
        return (1 / (responses * tokens)).expand(batch.mask.shape)


@register
class TokenMean(Aggregate):
    """Mean over all counted tokens of the mini-batch, of each prompt (then over prompts), or of each micro-batch.

    DAPO's token-level loss (Yu et al., arXiv:2503.14476, eq. 8).

    Open in the paper: over what the mean runs. Its formula says the prompt (scope=prompt); its code says the
    micro-batch (scope=microbatch, each weighed by its share of the responses); the default here is the mini-batch, as
    in later frameworks.
    """

    paper = "arXiv:2503.14476"
    failure_modes = ("length_growth",)
    scope: str = parameter("minibatch", ("minibatch", "prompt", "microbatch"), "what the mean runs over")

    def coefficients(self, batch: TokenBatch, counted: Tensor) -> Tensor:
        pool, pools = self._pools(batch)
        tokens = group_sum(counted.sum(1), pool, pools).clamp(min=1).to(batch.require("advantage", self.name))
        responses = group_sum(batch.mask.any(1).long(), pool, pools)
        share = responses > 0 if self.scope == "prompt" else responses
        return (share / (share.sum().clamp(min=1) * tokens))[pool][:, None].expand(batch.mask.shape)

    def _pools(self, batch: TokenBatch) -> tuple[Tensor, int]:
        """[N] the pool of each row, and how many pools there are."""
        if self.scope == "minibatch":
            return torch.zeros(len(batch.mask), dtype=torch.long, device=batch.mask.device), 1
        return group_index(batch.require("group" if self.scope == "prompt" else "micro_batch", self.name))

    def formula(self) -> str:
        where = {"minibatch": "", "prompt": " of each prompt", "microbatch": " of each micro-batch"}[self.scope]
        return f"L = mean over the counted tokens{where}"


@register
class SeqSum(Aggregate):
    """Sum over the tokens of each response, then the mean over responses.

    The denominator of sequence-level policy gradients (RLOO, Ahmadian et al., arXiv:2402.14740).

    L = (1/N) sum_i sum_t l_it
    """

    paper = "arXiv:2402.14740"
    failure_modes = ("length_growth",)
    printed = "L = mean over responses of the sum over tokens"

    def coefficients(self, batch: TokenBatch, counted: Tensor) -> Tensor:
        responses = batch.mask.any(1).sum().clamp(min=1)
        return torch.ones_like(batch.require("advantage", self.name)) / responses


@register
class ConstantLength(Aggregate):
    """Sum over the tokens of each response over a constant, then the mean over responses.

    Dr. GRPO's denominator (Liu et al., arXiv:2503.20783): the same for every token, whatever the responses' lengths.

    L = (1/N) sum_i (1/length) sum_t l_it
    """

    paper = "arXiv:2503.20783"
    failure_modes = ("length_growth",)
    length: int | None = parameter(None, "[1, inf)", "the constant in tokens; none: the run's response limit")

    @property
    def needs(self) -> frozenset[str]:
        return frozenset() if self.length else frozenset({"max_length"})

    def coefficients(self, batch: TokenBatch, counted: Tensor) -> Tensor:
        batch.require_all(self.needs, self.name)
        responses = batch.mask.any(1).sum().clamp(min=1)
        length = self.length or batch.max_length
        assert length is not None
        return torch.ones_like(batch.require("advantage", self.name)) / (responses * length)

    def formula(self) -> str:
        return f"L = mean over responses of the sum over tokens / {self.length or 'limit'}"


# ---- 9: penalties ----------------------------------------------------------------------------------------------------


@register
class KL(Penalty):
    """Divergence from the frozen reference, per token, estimated from the sampled token and differentiated directly.

    Divergence from a frozen reference in the loss (GRPO, Shao et al., arXiv:2402.03300, eq. 4).

    k1 = log(pi/pi_ref), k2 = k1^2 / 2, k3 = pi_ref/pi - log(pi_ref/pi) - 1 (GRPO's).
    http://joschu.net/blog/kl-approx.html
    """

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
    TRL's example takes 0.001. Deviations: the log-ratio of pi to pi_old is clamped to [-20, 20].
    """

    paper = "arXiv:2512.02556"
    failure_modes = ("noisy_rewards", "entropy_explosion")
    purpose = KL.purpose
    reads = frozenset({"logp_ref"})
    reads_once_moved = frozenset({"logp_old"})
    printed = "+ {beta:g} * pi(y) / pi_old(y) (p_ref / p + log p/p_ref - 1)"
    beta: float = parameter(0.04, "[0, inf)", "weight of the divergence in the loss", idle=0)

    def penalty(self, rows: Prepared, logp: Tensor, entropy: Tensor | None) -> Tensor:
        difference = logp - rows.require("logp_ref", self.name)
        estimate = torch.expm1(-difference) + difference
        return self.beta * log_ratio(rows, logp, self.name).exp() * estimate


@register
class Drift(Penalty):
    """Holds the sampled tokens' log-probs near those that they were sampled with.

    A penalty on moving away from the policy of the rollouts, or from the engine that sampled (verl's dro; prime-rl).

        square: z^2,  k2: z^2 / 2,  abs: |z|      z = log pi - log pi_old, or log pi - log pi_sampler

    Neither has a published weight, so that one is asked for. DRO is k2 to the old policy beside a policy gradient
    without ratio; prime-rl's loss takes 0.001 * square to the sampler.
    """

    acts_on_policy = False
    paper = "prime-rl 2026"
    failure_modes = ("many_epochs", "stale_rollouts")
    purpose: ClassVar[str] = "a penalty on leaving the old policy"
    reads = frozenset({"logp:to"})
    printed = "+ {beta:g} * {estimator}(log p/p_{to})"
    beta: float = parameter(REQUIRED, "[0, inf)", "weight of the penalty in the loss", example=0.1, idle=0)
    estimator: str = parameter("k2", ("square", "k2", "abs"), "of the difference of log-probs")
    to: str = parameter("old", ("old", "sampler"), "near whom: the policy of the rollouts, or the engine")

    def penalty(self, rows: TokenBatch, logp: Tensor, entropy: Tensor | None) -> Tensor:
        is_unmoved = rows.on_policy and self.to == "old"  # rounding is no difference
        difference = logp - (logp.detach() if is_unmoved else rows.require(f"logp_{self.to}", self.name))
        if self.estimator == "abs":
            return self.beta * difference.abs()
        return self.beta * difference.square() / (2 if self.estimator == "k2" else 1)


@register
class EntropyBonus(Penalty):
    """Adds the policy's entropy to the objective.

    Entropy bonus (Mnih et al., arXiv:1602.01783): a reward for keeping the next-token distribution wide.

    L -= coefficient * mean of H_it, differentiated through the full-vocabulary entropy
    """

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


# ---- 10: passes ------------------------------------------------------------------------------------------------------


@register
class SinglePass(Schedule):
    """One update pass over the rollouts.

    The schedule of nearly all methods.
    """

    paper = "arXiv:1707.06347"
    printed = "one pass over the mini-batches"

    def passes(self, batch: Prepared) -> tuple[Prepared, ...]:
        return (batch,)


@register
class Epochs(Schedule):
    """Several update passes over all of the rollouts.

    PPO's epochs (Schulman et al., arXiv:1707.06347, Algorithm 1; GRPO's mu, arXiv:2402.03300): further passes.

    The rollouts of a step are passed over `count` times, mini-batch after mini-batch in the same order; the ratio is to
    the policy that sampled, so that only the first update of the first pass is on-policy. What is settled once per step
    (rewards, selection, advantages, weights of the rollouts) stays; what reads the current policy is settled again for
    each mini-batch of each pass. Lopti's two passes are another thing: each token is in one of them. Both are
    schedules, and an objective has one of those. A surrogate without a ratio (reinforce) does not know that the policy
    has moved.
    """

    paper = "arXiv:1707.06347"
    printed = "{count} passes over the mini-batches"
    count: int = parameter(2, "[1, 64]", "mu, how often the rollouts are passed over")

    @property
    def pass_count(self) -> int:
        return self.count

    def passes(self, batch: Prepared) -> tuple[Prepared, ...]:
        return (batch,) * self.count
