"""Bounds that follow the data: probabilities, divergences, entropies, shares."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace

from objectives.batch import TokenBatch, over_scope
from objectives.errors import ObjectiveError
from objectives.ops import Tensor, group_index, group_sum, torch
from objectives.part import Bounds, Extra, Modifier, Part, Surrogate, Weight, parameter
from objectives.parts.advantages import GroupNorm
from objectives.parts.losses import log_ratio
from objectives.recipes import recipe
from objectives.zoo import register

MOST_STEPS = 10_000
"""From a bound to its end: each is tried in turn."""


@register
class BalancedClip(Modifier):
    """Widens the clip until good tokens have their share of the objective.

    BAPO's search for clip bounds (Xi et al., arXiv:2510.18927, eq. 8, Algorithm 1).
    """

    failure_modes = ("stale_rollouts", "entropy_collapse")
    sets = frozenset({"low", "high"})
    reads_once_moved = frozenset({"logp", "logp_old"})
    target: float = parameter(0.4, "[0, inf)", "what the measure has to reach")
    lower: float = parameter(0.6, "[0, 1]", "the lower bound of the ratio at first")
    lower_most: float = parameter(0.9, "[0, 1]", "and at most")
    lower_step: float = parameter(0.02, "(0, 1]", "by how much it rises at a time")
    upper: float = parameter(1.2, "[1, inf)", "the upper bound of the ratio at first")
    upper_most: float = parameter(3.0, "[1, inf)", "and at most")
    upper_step: float = parameter(0.05, "(0, inf)", "by how much it rises at a time")
    first: str = parameter("upper", ("upper", "lower"), "which bound is moved to its end before the other")
    measure: str = parameter("share", ("share", "ratio"), "P/(P + N), or P/N")
    weighted: bool = parameter(True, None, "whether tokens count by their old probability")
    scope: str = parameter("minibatch", ("minibatch", "microbatch"), "where the sums are taken")

    def check(self, parts: Mapping[str, Part]) -> None:
        super().check(parts)
        for name in ("lower", "upper"):
            if self._steps(name) > MOST_STEPS:
                raise ObjectiveError(
                    f"{self.term()}: {name}_most is more than {MOST_STEPS:,} steps from {name}; raise {name}_step"
                )

    def _steps(self, name: str) -> int:
        start, most, step = (getattr(self, f"{name}{what}") for what in ("", "_most", "_step"))
        return int(max(0, min(MOST_STEPS + 1, (most - start) / step + 1e-9)))

    def modify(self, bounds: Bounds, batch: TokenBatch) -> Bounds:
        if batch.on_policy:  # all ratios are 1, within any bounds
            return replace(bounds, low=1 - self.lower, high=self.upper - 1)
        limits = over_scope(batch, self.scope, self._search)
        return replace(bounds, low=1 - limits[:, :1], high=limits[:, 1:] - 1)

    def _search(self, batch: TokenBatch) -> Tensor:
        """[N, 2]: the lower and the upper bound, the same for all rows."""
        advantage = torch.where(batch.mask, batch.require("advantage", self.name), 0.0).double()
        logp = batch.require("logp", self.name).double()
        gain = advantage * batch.require("logp_old", self.name).double().exp() if self.weighted else advantage
        ratio, good, bad = log_ratio(batch, logp, self.name).exp(), gain.clamp(min=0), (-gain).clamp(min=0)
        bounds = {"lower": self.lower, "upper": self.upper}
        for name in (self.first, "lower" if self.first == "upper" else "upper"):
            start, step = getattr(self, name), getattr(self, f"{name}_step")
            for count in range(1, self._steps(name) + 1):
                positive = (good * ratio.clamp(max=bounds["upper"])).sum()
                negative = (bad * ratio.clamp(min=bounds["lower"])).sum()
                whole = negative + positive if self.measure == "share" else negative
                if positive >= self.target * (1 - 1e-6) * whole:
                    break
                bounds[name] = start + count * step
        return batch.require("advantage", self.name).new_tensor(list(bounds.values())).expand(len(logp), 2)

    def numbers(self) -> Mapping[str, str]:
        return {"low": f"{self.lower:g}..{self.lower_most:g}", "high": f"{self.upper:g}..{self.upper_most:g}"}

    def where(self) -> str:
        measure = "P/(P + N)" if self.measure == "share" else "P/N"
        second = "lower" if self.first == "upper" else "upper"
        rises = f"the {self.first} bound rises by {getattr(self, f'{self.first}_step'):g}"
        rises += f", then the {second} by {getattr(self, f'{second}_step'):g}"
        weight = "p_old " if self.weighted else ""
        where = " of each micro-batch" if self.scope == "microbatch" else ""
        good, bad = f"{weight}|A| min(p/p_old, upper) where A > 0", f"{weight}|A| max(p/p_old, lower) where A < 0"
        sums = f"P and N the sums of {good} and {bad}"
        return f"{rises}, until {measure} >= {self.target:g}, {sums}{where}"


recipe(
    "bapo",
    "grpo+balanced_clip+token_mean-kl",
    authors="bapo(target=0.5,lower=0.8,lower_most=0.95,lower_step=0.05,upper_most=2,upper_step=0.1,first=lower,measure=ratio,weighted=false,scope=microbatch)+dual_clip+token_mean(scope=microbatch)",
    paper="arXiv:2510.18927",
    summary="clip bounds that widen until good tokens have their share",
    contribution=("balanced_clip",),
)
"""BAPO: balanced policy optimisation with adaptive clipping (Xi et al., arXiv:2510.18927, eq. 8, Algorithm 1).

    P = sum_{A > 0} pi_old min(r, upper) A,   N = sum_{A < 0} pi_old max(r, lower) |A|
    from [0.6, 1.2] on, while P/(P + N) < 0.4:  upper += 0.05 up to 3.0, then lower += 0.02 up to 0.9

The bounds of PPO's clip are searched again for every mini-batch, over the tokens of all processes. Eq. 8 prints |P - N|
below the line; the text means the share, which is taken here. A clipped token counts with the bound, so that a higher
lower bound cannot raise the share: once the upper bound is exhausted, the lower one runs to its end.
Deviations: a share that is the target up to 1e-6 has reached it. Bounds that it is added to give way.
Open: the target and the ends. The authors' README names 0.5, [0.6, 0.9] and [1.2, 3.0] as the paper's; their YAML file
has P/N >= 1, [0.6, 0.8] and [1.2, 2.0] in steps of 0.05; their only script has the numbers of the variant authors.
Variant authors (WooooDyy/BAPO@7287044 recipe/bapo/run_bapo_example.sh): lower bound first, P/N >= 0.5 without pi_old,
[0.8, 0.95] in steps of 0.05, [1.2, 2.0] in steps of 0.1, dual_clip(cap=3); bounds and token mean per micro-batch. The
script passes twice over the rollouts, which `+epochs` adds.
"""


@register
class DynamicClip(Modifier):
    """Clips the ratio of a rare token later than that of a probable one."""

    failure_modes = ("exploration",)
    sets = frozenset({"low", "high"})
    reads_once_moved = frozenset({"logp_old"})
    explained = "q = p_old"
    low: float = parameter(0.16, "[0, inf)", "width below")
    high: float = parameter(0.2, "[0, inf)", "width above")
    most: float = parameter(10.0, "[1, inf)", "largest upper bound of the ratio")

    def modify(self, bounds: Bounds, batch: TokenBatch) -> Bounds:
        if batch.on_policy and batch.logp_old is None:  # all ratios are 1, within any bounds
            return replace(bounds, low=self.low, high=self.high)
        rarity = (-batch.require("logp_old", self.name)).exp()
        return replace(
            bounds, low=1 - _bound(-self.low * rarity), high=_bound(self.high * rarity).clamp(max=self.most) - 1
        )

    def numbers(self) -> Mapping[str, str]:
        lower = f"(1 + sqrt(max(1 - {4 * self.low:g}/q, 0)))/2"
        return {"low": lower, "high": f"min((1 + sqrt(1 + {4 * self.high:g}/q))/2, {self.most:g})"}


def _bound(change: Tensor) -> Tensor:
    return 0.5 + 0.5 * (1 + 4 * change).clamp(min=0).sqrt()


recipe(
    "dcpo",
    "grpo+dynamic_clip+dual_clip(cap=10)+seq_mean-kl",
    authors="dcpo(low=0.2,high=0.28)+token_mean(scope=microbatch)",
    paper="arXiv:2509.02333",
    summary="clip bounds that widen for rare tokens",
    essence=("dynamic_clip",),
)
"""DCPO: dynamic clipping by the old probability (Yang et al., arXiv:2509.02333).

    1/2 + 1/2 sqrt( max(1 - 4 low / q, 0) )  <=  r  <=  min( 1/2 + 1/2 sqrt(1 + 4 high / q), 10 ),   q = pi_old(y_it)

Rare tokens may multiply their probability. Mean per response, brought along; bounds that it is added to give way.
Left out: the paper's smoothing of advantages over the steps of a prompt (SAS), for which no history is kept; here the
group's z-score, theirs on the first visit; on the second 0.2 of the largest one away (median of 40 random batches).
Deviations: the paper's mean (OTM) sums the responses of a prompt; here it is over them, a factor of G.
Variant authors: widths 0.2 and 0.28; their OTM is the mean over the tokens of each micro-batch.
"""


@register
class DivergenceClip(Surrogate):
    """Policy gradient with a detached ratio, without the tokens whose probability has moved too far.

    DPPO's trust region of divergence (Qi et al., arXiv:2602.04879).
    """

    failure_modes = ("stale_rollouts", "engine_mismatch")
    explained = "D = {kind} of p / r and p"
    kind: str = parameter("tv", ("tv", "kl"), "the divergence: total variation or KL, of token against all others")
    delta: float = parameter(0.15, "[0, inf)", "divergence above which a token is dropped")
    cap: float | None = parameter(None, "(0, inf)", "largest ratio that counts; none: no bound")
    side: str = parameter("harmful", ("harmful", "both"), "dropped where the advantage moves on, or wherever it moved")

    def loss(self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Extra) -> Tensor:
        weight = ratio.detach()
        dropped = self._drops(weight, logp, advantage)
        weight = weight if self.cap is None else weight.clamp(max=self.cap)
        return -torch.where(dropped, 0.0, weight) * advantage * (logp - logp.detach()).exp()

    def _drops(self, ratio: Tensor, logp: Tensor, advantage: Tensor) -> Tensor:
        now = logp.detach().exp()
        then = now / ratio
        divergence = (then - now).abs()
        if self.kind == "kl":
            rest, rest_then = (1 - now).clamp(min=0), (1 - then).clamp(min=0)
            others = rest_then * ((rest_then + 1e-8).log() - (rest + 1e-8).log())
            divergence = others - then * ratio.log()
        harmful = ((advantage > 0) & (ratio > 1)) | ((advantage < 0) & (ratio < 1))
        return (divergence > self.delta) & (harmful | (self.side == "both"))

    def formula(self) -> str:
        where = "D > {:g} and r is on the side of A" if self.side == "harmful" else "D > {:g}"
        weight = "r" if self.cap is None else f"min(r, {self.cap:g})"
        return f"(sg[{weight}], 0 where {where.format(self.delta)}) A log p"


recipe(
    "dppo",
    "grpo+group_center+sampler_ratio+divergence_clip+token_mean-kl",
    authors="dppo(cap=10)+token_mean(scope=microbatch)",
    trl="dppo(cap=20)+group_norm(eps=1e-4)",
    prime_rl="dppo(delta=0.2)+live_only+drift(beta=0.001,estimator=square,to=sampler)",
    paper="arXiv:2602.04879",
    summary="tokens are dropped by how far their probability moved, not by their ratio",
    contribution=("group_center", "sampler_ratio", "divergence_clip"),
    essence=("sampler_ratio", "divergence_clip"),
)
"""DPPO: a trust region of divergence instead of ratio (Qi et al., arXiv:2602.04879).

    J = E sum_t M_t r_t A_t,   r = pi/pi_sampler,   A = R - mean_group
    M_t = 0 where D > delta and (A > 0 and r > 1, or A < 0 and r < 1)
    D: |p_sampler - p| (tv) or that of two-way distributions (kl), p the sampled token's probability

A rare token may multiply its probability, which PPO's clip forbids; a probable one may not fall by more than delta.
Dropped tokens stay in the denominator. delta is 0.15 for tv, 0.05 for kl; the ratio has no cap in the paper's stability
study, one of 5 in its larger runs, 10 in its code. Open: over what the sum is averaged; here the mean over all tokens.
Left out: the divergence over the engine's 20 likeliest tokens, which needs their log-probs.
Deviations: 1e-8 in the logarithms of kl's complements (the code's); the loss is -w A exp(log pi - sg[log pi]);
p_sampler is p over the clamped ratio.
Variant authors: the code's cap, 10; token mean per micro-batch, weighted by its rows, as its actor has it.
Variant trl: cap 20, group_norm(eps=1e-4), as its default scales by the group's deviation.
verl's is dppo(cap=20)+token_ratio+constant_length: to the trainer's old policy.
Variant prime_rl: delta 0.2, and 0.001 (log p/p_sampler)^2, both without tokens of zero advantage (live_only);
side=both drops whatever moved (its ipo).
"""


@dataclass(frozen=True)
class ByEntropy(Part):
    """What `zone_reweighting` and `heterogeneous_clip` read of the entropy, and the widths that follow from it.

    How unsure HAPO takes a token to be (Liu et al., arXiv:2509.16591, parts C and D).

        h = log H - its rho-quantile, in [-1, 1]:
            over its largest value where h > 0, over its smallest's size where h < 0

    H is the current policy's, the quantile the value of rank ceil(rho n). sign=lost is the authors' code: it divides by
    the smallest h itself, so that the surest tokens count as the least sure, and takes rank 1 + round(rho (n - 1)).
    Deviation: H is at least 1e-8.
    """

    paper = "arXiv:2509.16591"
    alpha: float = parameter(1.0, "[0, 1]", "by what share of itself a width grows at most")
    low: float = parameter(0.2, "[0, 0.5]", "the ratio is clipped to 1 - low below, where h >= 0")
    high: float = parameter(0.28, "[0, inf)", "the ratio is clipped to 1 + high above, where h <= 0")
    rho: float = parameter(0.8, "(0, 1]", "quantile of log H that has h = 0")
    scope: str = parameter("minibatch", ("minibatch", "microbatch"), "where quantile and largest values are taken")
    sign: str = parameter("kept", ("kept", "lost"), "whether h of sure tokens is negative, or positive as in the code")

    def height(self, batch: TokenBatch) -> Tensor:
        """[N, T] h, 0 outside the mask."""
        return over_scope(batch, self.scope, self._height)

    def _height(self, batch: TokenBatch) -> Tensor:
        entropy = batch.require("entropy", self.name).clamp(min=1e-8).log()
        pool = entropy[batch.mask]
        if len(pool) == 0:
            return torch.zeros_like(entropy)
        before = (
            math.ceil(self.rho * len(pool) - 1e-9) - 1 if self.sign == "kept" else round(self.rho * (len(pool) - 1))
        )
        height = torch.where(batch.mask, entropy - pool.sort().values[max(0, before)], 0.0)
        below = -height.amin() if self.sign == "kept" else height.amin()
        size = torch.where(height > 0, height.amax(), below)
        return torch.where(height == 0, 0.0, height / size)

    def check(self, parts: Mapping[str, Part]) -> None:
        super().check(parts)
        both = [part for part in parts.values() if isinstance(part, ByEntropy)]
        for name in (item.name for item in fields(ByEntropy)):
            if len({getattr(part, name) for part in both}) > 1:
                terms = " and ".join(f"{part.name}({name}={getattr(part, name)})" for part in both)
                raise ObjectiveError(f"{terms} disagree: leave one of them out, or give both the same")

    def where(self) -> str:
        where = " in each micro-batch" if self.scope == "microbatch" else ""
        if self.sign == "lost":
            return f"h = |log H less its {self.rho:g} quantile, rounded|, over the largest size of its sign{where}"
        return f"h = log H less its {self.rho:g} quantile, over the largest size of its sign{where}"

    def widths(self, height: Tensor) -> tuple[Tensor, Tensor]:
        """[N, T] each: the widths of the clip below and above 1."""
        up, down = height.clamp(min=0), height.clamp(max=0)
        return self.low * (1 - self.alpha * down), self.high * (1 + self.alpha * up)

    def written_bounds(self, share: float = 1.0) -> tuple[str, str]:
        """The clip's bounds as a formula has them, at a share of the widths."""
        low, high = share * self.low, share * self.high
        return f"1 - {low:g} (1 - {self.alpha:g} min(h, 0))", f"1 + {high:g} (1 + {self.alpha:g} max(h, 0))"


@register
class TokenGroupNorm(GroupNorm):
    """Reward minus the group's mean over its standard deviation, both over tokens, unless that makes one too large.

    HAPO's advantage (Liu et al., arXiv:2509.16591, part B): a group's z-score over its tokens instead of its responses.

        A_i = (R_i - mean) / (std + 1e-6)       mean and std (ddof 0) over all tokens of the group, each with its R_i

    A group in which some |A| reaches `guard` has group_norm's advantages instead. The code looks for that on padding as
    well; here only on responses with tokens. A reward equal to the mean up to rounding has an advantage of exactly
    zero.
    """

    guard: float = parameter(5.0, "(0, inf)", "largest advantage; groups with a larger one have the z-score of rewards")

    def of(self, batch: TokenBatch) -> Tensor:
        reward, (index, groups) = batch.require("reward", self.name), group_index(batch.require("group", self.name))
        tokens = batch.mask.sum(1).to(reward)
        total = group_sum(tokens, index, groups).clamp(min=1)
        centred = reward - (group_sum(tokens * reward, index, groups) / total)[index]
        largest = reward.new_zeros(groups).scatter_reduce(0, index, reward.abs(), "amax")
        rows = group_sum(torch.ones_like(reward), index, groups)  # a response's tokens are one term of the sums
        rounding = rows * largest * torch.finfo(reward.dtype).eps
        centred = centred.where(centred.abs() > rounding[index], 0.0)
        deviation = (group_sum(tokens * centred.square(), index, groups) / total).sqrt()
        advantage = centred / (deviation + self.eps)[index]
        return torch.where(self._guarded(advantage, tokens, index, groups), super().of(batch), advantage)

    def _guarded(self, advantage: Tensor, tokens: Tensor, index: Tensor, groups: int) -> Tensor:
        size = torch.where(tokens > 0, advantage.abs(), 0.0)
        return advantage.new_zeros(groups).scatter_reduce(0, index, size, "amax")[index] >= self.guard

    def formula(self) -> str:
        where = f"over the group's tokens, or over its responses where some |A| >= {self.guard:g}"
        return f"A = (R - mean) / (std + {self.eps:g}) {where}"


@register
class ZoneReweighting(ByEntropy, Weight):
    """Weighs unsure tokens that have moved more, and sure tokens that have not moved less.

    HAPO's weight (Liu et al., arXiv:2509.16591, part C).

        1 + beta h  where h > 0 and p/p_old is outside the half widths, or h <= 0 and r is inside them;  1 elsewhere

    h in [-1, 1] says how unsure a token is (`ByEntropy`). The weight has the clip's widths as parameters of its
    own; beside each other the two must have the same. Deviation: log-ratios are clamped to [-20, 20].
    """

    failure_modes = ("credit",)
    reads = frozenset({"logp", "logp_old", "entropy"})
    planned = True
    beta: float = parameter(1.0, "[0, 1]", "how much of h the weight follows", idle=0)

    def notices(self, parts: Mapping[str, Part]) -> Iterator[str]:
        yield from super().notices(parts)
        if HeterogeneousClip.name not in parts:
            clip = HeterogeneousClip.name
            yield f"{self.name}: its zones are those of {clip}, which is not there. Add {clip}, or write -{self.name}."

    def weight(self, batch: TokenBatch) -> Tensor:
        height = self.height(batch)
        low, high = self.widths(height)
        ratio = log_ratio(batch, batch.require("logp", self.name), self.name).exp()
        inside = (ratio > 1 - low / 2) & (ratio < 1 + high / 2)
        return torch.where((height > 0) != inside, 1 + self.beta * height, 1.0)

    def formula(self) -> str:
        low, high = self.written_bounds(0.5)
        return (
            f"A *= 1 + {self.beta:g} h where h > 0 and p/p_old is outside {low} .. {high}, or h <= 0 and it is inside"
        )


@register
class HeterogeneousClip(ByEntropy, Modifier):
    """Lets sure tokens fall further and unsure ones rise further.

    HAPO's clip (Liu et al., arXiv:2509.16591, part D).

        lower bound 1 - low (1 - alpha min(h, 0)),  upper bound 1 + high (1 + alpha max(h, 0))

    h in [-1, 1] says how unsure a token is (`ByEntropy`).
    """

    failure_modes = ("exploration",)
    reads = frozenset({"entropy"})
    sets = frozenset({"low", "high"})

    def modify(self, bounds: Bounds, batch: TokenBatch) -> Bounds:
        low, high = self.widths(self.height(batch))
        return replace(bounds, low=low, high=high)

    def numbers(self) -> Mapping[str, str]:
        low, high = self.written_bounds()
        return {"low": low, "high": high}


recipe(
    "hapo",
    "grpo+token_group_norm+zone_reweighting+heterogeneous_clip+dual_clip(cap=10)+token_mean-kl",
    authors="hapo+zone_reweighting(high=0.2,scope=microbatch,sign=lost)+heterogeneous_clip(high=0.2,scope=microbatch,sign=lost)+token_mean(scope=microbatch)",
    paper="arXiv:2509.16591",
    summary="advantages, weights and clip bounds by the entropy of tokens",
    contribution=("token_group_norm", "zone_reweighting", "heterogeneous_clip", "dual_clip"),
)
"""HAPO: heterogeneous adaptive policy optimisation by token entropy (Liu et al., arXiv:2509.16591).

B  token_group_norm: the z-score over all tokens of a group; over its responses where some |A| reaches 5
C  zone_reweighting: unsure tokens that have moved count more, sure ones that have not count less
D  heterogeneous_clip: sure tokens may fall further, unsure ones rise further; dual clip at 10, mean over all tokens

Adding it brings the dual clip of 10 as well. Beside each other C and D have the same widths, or are
refused; C without D, as in hapo+gspo, gets a notice.
Left out: A, a temperature per token while sampling. Widths 0.2 and 0.28.
Variant authors: widths 0.2 and 0.2, h without its sign (sure tokens count as unsure), all per micro-batch.
Left out: dynamic sampling, which the scripts set without effect, and overlong shaping, which four of six set:
soft_overlong(cache=4096) at limits of 10240 and 12288.
"""
