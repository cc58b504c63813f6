"""Tokens that are masked, weighed, or updated first."""

import math
from collections.abc import Sequence

from objectives.batch import Action, Prepared, TokenBatch, statistic
from objectives.ops import Tensor, group_index, largest, quantile, recurrence, torch, uniform_of
from objectives.part import REQUIRED, Mask, Schedule, Weight, parameter
from objectives.parts.losses import log_ratio
from objectives.recipes import recipe
from objectives.zoo import register


@register
class S2T(Mask):
    """Masks spurious tokens: rare, in low-entropy places, and rewarded.

    STAPO's mask (arXiv:2602.15620): tokens that are rare, in low-entropy places, and rewarded are masked.

    I_it = 0  iff  A_it > 0  and  pi(y_it) < tau_p  and  H_it < the q-quantile of H over the tokens with the first two
    """

    name = "s2t"
    failure_modes = ("spurious_tokens",)
    goes_by_reward = True
    reads = frozenset({"logp:source", "entropy:source"})
    tau_p: float = parameter(0.002, "[0, 1]", "probability below which a token is rare", idle=0)
    q: float = parameter(0.75, "[0, 1]", "quantile of the rare rewarded tokens' entropy below which one is spurious")
    scope: str = parameter("minibatch", ("minibatch", "microbatch"), "where the quantile is taken")
    source: str = parameter("current", ("current", "old"), "whose statistics: the current policy's or the rollouts'")
    denominator: str = parameter("kept", ("kept", "all"), "the tokens that the mean counts")

    def keeps(self, batch: TokenBatch) -> Tensor:
        logp = batch.require(statistic("logp", self.source), self.name)
        entropy = batch.require(statistic("entropy", self.source), self.name)
        advantage = batch.require("advantage", self.name)
        rare = math.log(self.tau_p) if self.tau_p > 0 else -math.inf
        pool = batch.mask & (advantage > 0) & (logp < rare)
        if not pool.any():
            return batch.mask
        return batch.mask & ~(pool & (entropy < quantile(entropy[pool], self.q)))

    def formula(self) -> str:
        p, entropy = ("p", "H") if self.source == "current" else ("p_old", "H_old")
        where = " in each micro-batch" if self.scope == "microbatch" else ""
        return f"not (A > 0 and {p} < {self.tau_p:g} and {entropy} < their {self.q:.0%} quantile{where})"


recipe(
    "stapo",
    "justrl+s2t",
    v1="justrl+s2t(q=0.8)",
    justrl="justrl(variant=authors)+s2t",
    paper="arXiv:2602.15620",
    summary="JustRL with spurious tokens masked: rare, low-entropy, rewarded",
)
"""STAPO (arXiv:2602.15620, v4, eq. of section 4): JustRL without the gradient of spurious tokens.

    J = E [ 1 / sum I_it  sum_i sum_t I_it min( r A, clip(r, 0.8, 1.28) A ) ]
    I_it = 0  iff  A_i > 0  and  pi(y_it) < tau_p  and  H_it < tau_h,
    tau_h = the q-quantile of H over the tokens with the first two

Probability and entropy are the current policy's (Algorithm 1), the quantile is taken over the mini-batch, interpolated
linearly, and the comparison is strict: an empty pool, or a pool of one, masks nothing.
Deviations: the sign is that of the weighted advantage; a token whose weight is zero has none and is in no pool.
Open: the printed mask writes pi without saying whose; source=old takes the rollouts' statistics and saves a forward.
Variant v1 (February 2026): q = 0.8; what its quantile runs over was not spelled out and is read as in v4.
Variant justrl: the mask on the code of JustRL, from which the paper takes its other settings (dual_clip(cap=10), token
mean per micro-batch). STAPO's own code is not public: this is held against JustRL's function, the mask being ours.
"""


@register
class TopEntropy(Mask):
    """Keeps the `fraction` of response tokens with the highest entropy.

    20-Entropy's mask (Wang et al., arXiv:2506.01939): only the tokens of highest entropy are trained on.

        I_it = 1[ H_it >= tau ],   tau keeps the top `fraction` of all response tokens, whatever their advantage

    Equal prefixes have equal entropies, and ties at tau are all kept, so that small batches keep more than the share.
    """

    failure_modes = ("credit",)
    reads = frozenset({"entropy:source"})
    fraction: float = parameter(0.2, "(0, 1]", "share of the response tokens that is kept", idle=1)
    scope: str = parameter("minibatch", ("minibatch", "microbatch"), "where the share is taken")
    source: str = parameter("current", ("current", "old"), "whose entropy: the current policy's or the rollouts'")
    denominator: str = parameter("kept", ("kept", "all"), "the tokens that the mean counts")

    def keeps(self, batch: TokenBatch) -> Tensor:
        entropy = batch.require(statistic("entropy", self.source), self.name)
        kept = math.ceil(self.fraction * int(batch.mask.sum()) - 1e-9)
        return largest(entropy, batch.mask, max(1, kept))

    def formula(self) -> str:
        entropy = "H" if self.source == "current" else "H_old"
        where = " of each micro-batch" if self.scope == "microbatch" else ""
        return f"{entropy} among the top {self.fraction:.0%} of the tokens{where}"


recipe(
    "entropy20",
    "dapo+top_entropy",
    authors="dapo(variant=authors)+top_entropy(scope=microbatch)",
    v1="dapo+top_entropy(denominator=all)",
    paper="arXiv:2506.01939",
    summary="DAPO restricted to the fifth of the tokens with the highest entropy",
    aliases=("20_entropy",),
)
"""20-Entropy, Beyond the 80/20 Rule (Wang et al., arXiv:2506.01939, eq. 6): DAPO on high-entropy tokens only.

    J = E [ 1 / sum I_it  sum_i sum_t I_it min( r A, clip(r, 0.8, 1.28) A ) ],
    I_it = 1[ H_it >= tau ]

tau keeps the top 20 % of all response tokens of the batch by the current policy's entropy, whatever their advantage.
Open: "(micro-)batch"; here the mini-batch.
Deviations: ties at tau are kept, so that the order of rows does not matter; equal prefixes tie, so that small batches
keep more than the share. The code takes any of the tied: with entropies in eighths 20 of 40 random batches differ, by
0.6 of the largest gradient (median); without ties none.
Variant authors: threshold and token mean per micro-batch, dual_clip(cap=10); behind the limit as dapo's.
Variant v1 (June 2025): denominator=all.
Until 29 November 2025 the authors' public script set the share under `model`, where the actor did not read it, and
trained plain DAPO (fixed by 137d8d1 of Shenzhi-Wang/Beyond-the-80-20-Rule-RLVR). Runs of others before may be DAPO.
"""


@register
class RandomTokens(Mask):
    """Keeps the first tokens of a response and a random share of the others."""

    share: float = parameter(REQUIRED, "(0, 1]", "P, probability that a token is kept", example=0.4, idle=1)
    first: int = parameter(0, "[0, inf)", "alpha, tokens at a response's start that are always kept")
    limit: int | None = parameter(None, "[1, inf)", "k, tokens of a response after which none is drawn; none: no limit")
    reads = frozenset({"random_key"})

    @property
    def is_idle(self) -> bool:
        """Whether it keeps every token."""
        return super().is_idle and self.limit is None

    def keeps(self, batch: Prepared) -> Tensor:
        always = batch.mask & (batch.mask.cumsum(1) <= self.first)
        kept = always | (batch.mask & (uniform_of(batch.require("random_key", self.name)) < self.share))
        return kept if self.limit is None else always | (kept & (kept.cumsum(1) <= self.limit))

    def formula(self) -> str:
        draw = f"(u < {self.share:g} and n < {self.limit})" if self.limit else f"u < {self.share:g}"
        return f"(t < {self.first} or {draw})" if self.first else draw

    def where(self) -> str:
        names = ["u = a random number of the token, from 0 to 1"]
        names += ["t = tokens of the response before it"] if self.first else []
        names += ["n = tokens of the response before it that this draw keeps"] if self.limit else []
        return "; ".join(names)


recipe(
    "s_grpo",
    "grpo+reinforce+random_tokens(share=?)-kl",
    paper="arXiv:2504.20834",
    summary="the policy gradient of a random part of each response's tokens",
    contribution=("random_tokens",),
)
"""S-GRPO (Lee and Tong, Token-Efficient RL for LLM Reasoning, arXiv:2504.20834), as a public review quotes it.

    J = 1/|G| sum_i 1/|T_i| sum_{t in T_i} pi / sg[pi] A_it
    t in T_i:  always if t < alpha,  else at random with probability P while |T_i| < k

The policy gradient of a random part of the tokens, which alone are in the denominator. It is right for one update per
rollout only. Here it saves neither time nor memory: the log-prob of every token is calculated.
P is asked for: notes on the paper say "30 to 50 % of the tokens". Open: alpha and k, which are ours (0, no limit); beta
of the paper's penalty on the KL to the reference, which is left out, `+kl` adds one; whether advantages are divided by
the deviation, here grpo's.
Deviations: tokens are drawn by a number made of the step, their group, row and position, so that neither the order of
groups nor processes and cuts have a say, and several passes draw the same; a response without a drawn token counts
in |G|, where the equation divides by zero.
"""


@register
class AdvantageReweighting(Weight):
    """Weighs each token by its old probability: alpha p + 1 - alpha."""

    failure_modes = ("spurious_tokens",)
    reads = frozenset({"logp_old"})
    alpha: float = parameter(0.3, "[0, 1]", "share of the weight that follows the probability", idle=0)

    def weight(self, batch: TokenBatch) -> Tensor:
        return self.alpha * batch.require("logp_old", self.name).exp() + (1 - self.alpha)

    def formula(self) -> str:
        return f"A *= {self.alpha:g} p_old + {1 - self.alpha:g}"


recipe(
    "advantage_reweighting",
    "grpo+clip_higher(high=0.24)+token_mean+kl(beta=0.001)+advantage_reweighting",
    authors="advantage_reweighting(alpha=0.2)+dual_clip(cap=10)+token_mean(scope=microbatch)+kl(beta=0.001,clamp=5)",
    paper="arXiv:2505.12929",
    summary="tokens weighed by their probability, so that improbable ones do not dominate",
    contribution=("advantage_reweighting",),
    aliases=("ar",),
)
"""Advantage Reweighting (Yang et al., Do Not Let Low-Probability Tokens Over-Dominate, arXiv:2505.12929, eq. 4).

    A'_it = ( alpha pi_old(y_it) + 1 - alpha ) A_i

Tokens of both signs are weighed, after the group normalisation, without renormalising. alpha is 0.3 for Knights and
Knaves, 0.1 for maths. The paper writes pi_theta; its code, and this part, take the old policy's probability.
Open: over what the token mean runs; here the mini-batch.
Variant authors (their verl): alpha = 0.2; dual_clip(cap=10); the KL's log-ratio is clamped; token mean per micro-batch,
weighted by its responses. Their code weighs micro-batches equally: the same where their sizes are, as in their scripts;
a third of the largest gradient away where they are not (median of 23 random batches).
"""


@register
class Lopti(Schedule):
    """Updates the improbable tokens first, then the probable ones, each in a pass of its own."""

    failure_modes = ("spurious_tokens",)
    reads = frozenset({"logp_old"})
    eta: float = parameter(0.5, "(0, 1]", "old probability below which a token belongs to the low group")
    portion: float | None = parameter(None, "(0, 1)", "split at this quantile of the old probabilities instead of eta")
    order: str = parameter("low_first", ("low_first", "high_first"), "which group is updated first")

    @property
    def pass_count(self) -> int:
        return 2

    def passes(self, batch: Prepared) -> Sequence[Prepared]:
        low = batch.mask & self._low(batch)
        groups = [low, ~low]  # what an environment wrote is among the others
        if self.order == "high_first":
            groups.reverse()
        batch = batch.record(self.name, Action.GROUP, low)
        return [batch.with_fields(policy_mask=group, penalty_mask=group) for group in groups]

    def _low(self, batch: TokenBatch) -> Tensor:
        probability = batch.require("logp_old", self.name).exp()
        if self.portion is None or not batch.mask.any():
            return (probability < probability.new_full((), self.eta)) | (self.eta == 1)  # a p_old may be rounded to 1
        return probability < quantile(probability[batch.mask], self.portion)

    def formula(self) -> str:
        low = f"p_old < {self.eta:g}" if self.portion is None else f"p_old < its {self.portion:.0%} quantile"
        first, second = (low, "the rest") if self.order == "low_first" else ("the rest", low)
        return f"pass 1: {first}; pass 2: {second}"


recipe(
    "lopti",
    "grpo+clip_higher(high=0.24)+token_mean+kl(beta=0.001)+lopti",
    authors="lopti(eta=0.4)+dual_clip(cap=10)+token_mean(scope=microbatch)+kl(beta=0.001,clamp=5)",
    paper="arXiv:2505.12929",
    summary="two ordered passes: improbable tokens first, then the others",
    contribution=("lopti",),
)
"""Lopti, low-probability token isolation (Yang et al., arXiv:2505.12929, Algorithm 1): two ordered update passes.

    pass 1: all mini-batches of the step, tokens with pi_old(y_it) < eta
    pass 2: all of them again, the other tokens

Old log-probs and the split stay those of the rollouts; both passes divide by the full token count, so at the same
parameters their gradients add up to the joint one; KL and entropy terms belong to the pass of their token.
With advantage_reweighting the authors take eta = 0.5 and alpha = 0.3. With stare, STARE's authors take its share within
each pass; here it is that of the rollouts.
Deviations: the boundary is strict, as in the code; the paper's algorithm prints "<=". With eta = 1 all are in pass 1.
Variant authors: eta = 0.4; dual_clip(cap=10); the KL's log-ratio is clamped; token mean per micro-batch,
weighted by its responses. Their code weighs micro-batches equally: the same where their sizes are, as in their scripts;
a third of the largest gradient away where they are not (median of 23 random batches).
"""


@register
class FutureKL(Weight):
    """Weighs each token by how much the policy has moved towards what follows it."""

    acts_on_policy = False
    failure_modes = ("credit",)
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
    "grpo+future_kl+dual_clip(cap=10)+token_mean-kl",
    paper="arXiv:2603.19835",
    summary="tokens weighed by how the policy has moved on what follows them",
    contribution=("future_kl",),
)
"""FIPO: future-KL weights (arXiv:2603.19835, as ms-swift has it).

    f_t = clip( exp( sum_{s >= t} gamma^(s-t) z_s 1[r_s <= 10] ), 1, 1.2 ),   z = log pi/pi_old,  gamma = 2^(-1/32)
    f_t <= 1 where A < 0 and r_t > 4;   l_t = f_t times the clipped objective, dual_clip(cap=10)

A token counts more where the policy has come to prefer what follows it. f is not differentiated and enters through the
advantage, which is the same, for it is positive. There one number, delta, is the ratio that has no say and the dual
clip; here fipo(cap=...) and dual_clip(cap=...); adding fipo brings the first alone. low=0.8 lets f fall too.
Open: its base; here GRPO's clip at 0.2, mean over all tokens. Deviations: each log-ratio is clamped to [-20, 20];
tokens that the loss does not see are not there, and do not lengthen the distance either. There they do: 9 of 20 batches
with tools' tokens differ, by 0.04 % of the largest gradient (median; 0.2 % at most).
"""


@register
class PositionBonus(Weight):
    """Adds to the size of the advantage towards the end of a response."""

    failure_modes = ("credit",)
    goes_by_reward = True
    additive = True
    shares_advantage = True
    printed = "A += sign(A) min({gamma:g} sigmoid({slope:g} (place - 0.5)), |A| / 2)"
    explained = "place = tokens of the response before it, over all of them"
    gamma: float = parameter(0.1, "[0, inf)", "what is added at the very end, nearly", idle=0)
    slope: float = parameter(15.0, "[0, inf)", "how sharply it rises in the middle")

    def weight(self, batch: TokenBatch) -> Tensor:
        advantage = batch.require("advantage", self.name)
        before = batch.mask.cumsum(1) - 1
        place = before / batch.mask.sum(1, keepdim=True).clamp(min=1).to(advantage)
        bonus = self.gamma * torch.sigmoid(self.slope * (place - 0.5))
        return torch.where(batch.mask, advantage.sign() * torch.minimum(bonus, advantage.abs() / 2), 0.0)


recipe(
    "position_shaping",
    "dapo+position_bonus",
    authors="position_shaping+token_mean(scope=microbatch)",
    paper="arXiv:2508.02260",
    summary="late tokens of a response count more",
)
"""Position shaping (Deng et al., Decomposing the Entropy-Performance Exchange, arXiv:2508.02260), as its code has it.

    A'_it = A_i + sign(A_i) min( gamma sigmoid( 15 (s_it - 1/2) ), |A_i| / 2 ),   gamma = 0.1

s is a token's place in its response, from 0 to 1: the tokens before it over all. Late tokens count more, right or
wrong. On DAPO, with all its parts. Their trainer turns it on for steps 201 to 299 alone; here it is on throughout.
Variant authors: token mean per micro-batch, weighted by its responses.
"""


@register
class PerplexityWeight(Weight):
    """Weighs a response by how likely it was among its group: less where it surprised."""

    failure_modes = ("credit",)
    reads = frozenset({"logp_old", "group"})
    explained = "surprise = z-score of log PPL_old in the group, by those within Tukey's fences"
    alpha: float = parameter(0.01, "(-inf, inf)", "what a standard deviation of log-perplexity takes off", idle=0)
    width: float = parameter(0.2, "[0, 1]", "how far from 1 the weight goes")

    def weight(self, batch: TokenBatch) -> Tensor:
        logp, count = batch.require("logp_old", self.name).double(), batch.mask.sum(1)
        surprise = -torch.where(batch.mask, logp, 0.0).sum(1) / count.clamp(min=1)
        index, groups = group_index(batch.require("group", self.name))
        score = torch.zeros_like(surprise)
        for number in range(groups):
            rows = (index == number) & (count > 0)
            score[rows] = _scores(surprise[rows]) if rows.any() else 0.0
        weight = (1 - self.alpha * score).clamp(1 - self.width, 1 + self.width)
        return batch.like_tokens(weight.to(batch.require("advantage", self.name)))

    def formula(self) -> str:
        return f"A *= clip(1 - {self.alpha:g} surprise, {1 - self.width:g}, {1 + self.width:g})"


def _scores(values: Tensor) -> Tensor:
    """[n] how many standard deviations above the mean, both of those that are within the fences."""
    low, high = quantile(values, 0.25), quantile(values, 0.75)
    reach = 1.5 * (high - low)
    inside = values[(values >= low - reach) & (values <= high + reach)]
    deviation = inside.std(correction=0)
    return (values - inside.mean()) / torch.where(deviation > 1e-6, deviation, 1.0)


recipe(
    "perplexity_shaping",
    "dapo+perplexity_weight",
    authors="perplexity_shaping+token_mean(scope=microbatch)",
    paper="arXiv:2508.02260",
    summary="responses weighed by how likely they were among their group",
)
"""Perplexity shaping (Deng et al., Decomposing the Entropy-Performance Exchange, arXiv:2508.02260), as its code has it.

    A'_i = A_i clip( 1 - alpha z_i, 0.8, 1.2 ),   z_i = (log PPL_i - mean_group) / std_group,   alpha = 0.01

log PPL is minus the mean old log-prob of a response. Mean and deviation (ddof 0; 1 where it is 1e-6 or less) are those
of the group's responses within Tukey's fences, 1.5 times the distance of the quartiles beyond them. Likely responses
count more. On DAPO, with all its parts.
Variant authors: token mean per micro-batch, weighted by its responses. It is what their function does with use_ppl_high
and alpha = -0.01. Their script takes the branch that calculates the same weight and never applies it: as published it
trains as DAPO does, which differs by 1 % of a token's gradient for each standard deviation, 20 % at most.
"""
