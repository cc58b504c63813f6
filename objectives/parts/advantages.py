"""The parts of the first four stages that several methods use: rewards, selection, advantages and weights."""

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from objectives.batch import TokenBatch
from objectives.errors import ObjectiveError
from objectives.ops import (
    Tensor,
    centred,
    group_centred,
    group_deviation,
    group_index,
    group_is_constant,
    group_sum,
    running_sum,
    torch,
)
from objectives.part import Advantage, Part, Reward, Select, Surrogate, Weight, parameter
from objectives.zoo import register

# ---- 1: rewards ------------------------------------------------------------------------------------------------------


@register
class SoftOverlong(Reward):
    """Soft overlong punishment (eq. 13): a penalty that grows from 0 to 1 over the last `cache` tokens of the limit.

    Soft overlong punishment of DAPO (Yu et al., arXiv:2503.14476, eq. 13).

        R_i += clip( (limit - cache - |y_i|) / cache, -1, 0 )

    Deviations: limit and cache follow the run's response limit unless given, in the paper's proportion 4096/20480.
    |y_i| counts what the policy wrote, and nothing that an environment did.
    """

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


def check_overlong(parts: Iterable[Part], setting: str, limit: int) -> None:
    """Raises ObjectiveError for a penalty on length that begins before the first token; a `limit` of 0 is not known."""
    for each in parts:
        if isinstance(each, SoftOverlong) and not each.max_length and 0 < limit < (each.cache or 0):
            raise ObjectiveError(
                f"cache={each.cache} of {each.name} exceeds {setting}={limit}; lower it, or raise the limit"
            )


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
    purpose = "a divergence from the reference"
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


# ---- 2: selection ----------------------------------------------------------------------------------------------------


@register
class DynamicSampling(Select):
    """Drops groups whose responses are all correct or all wrong and samples further prompts in their place.

    Dynamic sampling of DAPO (Yu et al., arXiv:2503.14476, eq. 11): 0 < #correct < G.
    """

    paper = "arXiv:2503.14476"
    purpose = "a filter of groups whose responses are alike"
    goes_by_reward = True
    failure_modes = ("dead_groups", "zero_loss")
    reads = frozenset({"correct", "group"})
    refills = True
    printed = "only groups with 0 < #correct < G, refilled"

    def selects(self, batch: TokenBatch) -> Tensor:
        index, groups = group_index(batch.require("group", self.name))
        return ~group_is_constant(batch.require("correct", self.name), index, groups)


@register
class DynamicSamplingByReward(Select):
    """Drops groups whose responses earned the same in each reward and samples further prompts in their place.

    Dynamic sampling (arXiv:2503.14476) for several rewards: a group stays where any of them differs, as graded.

    An objective that reads rewards one by one, as gdpo does, learns from such a group though all its answers are right.
    """

    paper = "arXiv:2503.14476"
    purpose = DynamicSampling.purpose
    goes_by_reward = True
    failure_modes = ("dead_groups", "zero_loss")
    reads = frozenset({"rewards", "group"})
    refills = True
    printed = "only groups in which some R_k differs, refilled"

    def selects(self, batch: TokenBatch) -> Tensor:
        index, groups = group_index(batch.require("group", self.name))
        columns = batch.require("rewards", self.name).unbind(1)
        return ~torch.stack([group_is_constant(column, index, groups) for column in columns]).all(0)


@register
class OverlongFilter(Select):
    """Leaves truncated responses out of the loss; their rewards still count in the group's statistics.

    Overlong filtering of DAPO (Yu et al., arXiv:2503.14476, section 3.4).

    Open in the paper: what the loss then divides by; here, the tokens and responses that are left (TRL counts all rows,
    but only the tokens that are left).
    """

    paper = "arXiv:2503.14476"
    failure_modes = ("truncation",)
    reads = frozenset({"truncated"})
    printed = "without truncated responses"

    def selects(self, batch: TokenBatch) -> Tensor:
        return ~batch.require("truncated", self.name)


@register
class AnswerFilter(Select):
    """Trains on right answers, or on wrong ones, alone.

    Positive or negative samples alone (Zhu et al., arXiv:2506.01347): right answers, or wrong ones, are left out.

    A response that is left out leaves the denominators as well. The advantages of the others are those of the whole
    group.
    """

    paper = "arXiv:2506.01347"
    reads = frozenset({"correct"})
    keep: str = parameter("right", ("right", "wrong", "all"), "which answers are trained on")

    @property
    def goes_by_reward(self) -> bool:
        return self.keep != "all"

    def selects(self, batch: TokenBatch) -> Tensor:
        right = batch.right(self.name)
        return {"right": right, "wrong": ~right, "all": torch.ones_like(right)}[self.keep]

    def formula(self) -> str:
        return f"{self.keep} answers only" if self.keep != "all" else "all answers"


@register
class LiveOnly(Select):
    """Leaves tokens whose advantage is exactly 0 out of the loss, its denominators and penalties; nothing is refilled.

    prime-rl's default (`orchestrator.train.filter_zero_advantages`, PrimeIntellect-ai/prime-rl@559b447
    src/prime_rl/orchestrator/train_sink.py:36-61, 360-365; docs/algorithms.md:461).

    Groups of equal rewards teach nothing, but they dilute means over tokens, and their penalties hold the policy back.
    What an environment wrote in such a response is still learnt where a part learns it. The advantage is the one before
    weights.
    """

    paper = "prime-rl 2026"
    goes_by_reward = True
    failure_modes = ("dead_groups",)
    late = True
    printed = "only tokens with A != 0"

    def notices(self, parts: Mapping[str, Part]) -> Iterator[str]:
        yield from super().notices(parts)
        for part in parts.values():
            is_never_zero = part.name == "signed_reward" and 0.0 not in vars(part).values()
            if is_never_zero or part.name == "global_norm":
                yield f"{self.name}: drops next to nothing, as A of {part.name} is hardly ever 0. Write -{self.name}."

    def selects(self, batch: TokenBatch) -> Tensor:
        return batch.require("advantage", self.name) != 0


# ---- 3: advantages ---------------------------------------------------------------------------------------------------


@register
class GroupNorm(Advantage):
    """Reward minus the group's mean, over the group's standard deviation (ddof 1).

    GRPO's advantage (Shao et al., DeepSeekMath, arXiv:2402.03300, section 4.1.2).

        A_i = (R_i - mean_group) / (std_group + eps)

    Open in the paper, and the reading taken: std with ddof 1 and 1e-6 added (verl; the printed advantages of later
    papers confirm ddof 1). Deviations: a reward equal to its group's mean up to rounding, and so every reward of an
    equal-reward group, has an advantage of exactly zero.
    """

    paper = "arXiv:2402.03300"
    minimum_group = 2
    printed = "A = (R - mean) / (std + {eps:g}) over the group"
    eps: float = parameter(1e-6, "[0, inf)", "added to the standard deviation")

    def advantage(self, reward: Tensor, group: Tensor) -> Tensor:
        index, groups = group_index(group)
        centred = group_centred(reward, index, groups)
        deviation = group_deviation(centred, index, groups)
        return torch.where(centred == 0, 0.0, centred / (deviation + self.eps)[index])


@register
class GroupCenter(Advantage):
    """Reward minus the group's mean; exactly zero where the two are equal up to rounding.

    Dr. GRPO's advantage (Liu et al., Understanding R1-Zero-Like Training, arXiv:2503.20783).

        A_i = R_i - mean_group

    The standard deviation is left out, because it weighs easy and hard prompts more than the others.
    """

    paper = "arXiv:2503.20783"
    failure_modes: ClassVar[tuple[str, ...]] = ("mixed_difficulty",)
    minimum_group = 2
    printed = "A = R - mean over the group"

    def advantage(self, reward: Tensor, group: Tensor) -> Tensor:
        return group_centred(reward, *group_index(group))


@register
class LeaveOneOut(Advantage):
    """Reward minus the mean of the group's other rewards; exactly zero where they are equal up to rounding.

    RLOO's baseline (Ahmadian et al., arXiv:2402.14740): what the other responses to the prompt earn.

    A_i = R_i - mean_{j != i} R_j = G / (G - 1) (R_i - mean_group)
    """

    paper = "arXiv:2402.14740"
    failure_modes = ("few_responses", "mixed_difficulty")
    minimum_group = 2
    printed = "A = R - mean over the group's others"

    def advantage(self, reward: Tensor, group: Tensor) -> Tensor:
        index, groups = group_index(group)
        size = group_sum(torch.ones_like(reward), index, groups)
        return group_centred(reward, index, groups) * (size / (size - 1))[index]


@register
class GlobalNorm(Advantage):
    """Reward minus the batch's mean, over the batch's standard deviation.

    Advantages normalised over the whole batch (REINFORCE++, Hu et al., arXiv:2501.03262, eq. 8-10 and appendix A).

        global_norm:              A = (R - mean) / std                over the batch
        center_then_global_norm:  A = (R - mean_group) / std of that  over the batch

    The variance has ddof 0 and is at least 1e-8 (OpenRLHF). over=tokens lets every token count the same, over=rows
    every response. Equal rewards have an advantage of zero only under center_then_global_norm(over=rows), which alone
    needs no further mean; with over=tokens the mean of the centred rewards is not zero and is taken off, as OpenRLHF
    does.
    """

    paper = "arXiv:2501.03262"
    centred = False
    failure_modes = ("few_responses",)
    takes_token_rewards = True
    reads = frozenset({"reward"})
    printed = "A = (R - mean) / std over the batch's {over}"
    over: str = parameter("tokens", ("tokens", "rows"), "what counts the same in mean and deviation")

    def of(self, batch: TokenBatch) -> Tensor:
        return _whitened(batch, batch.require("reward", self.name), self.over, shift=True)


@register
class CenterThenGlobalNorm(GroupCenter):
    """Reward minus the group's mean, over the standard deviation of the whole batch."""

    paper = "arXiv:2501.03262"
    failure_modes = ("few_responses",)
    printed = "A = (R - mean over the group) / std over the batch's {over}"
    over: str = parameter("rows", ("rows", "tokens"), "what counts the same in the deviation")

    @property
    def centred(self) -> bool:
        return self.over == "rows"

    def of(self, batch: TokenBatch) -> Tensor:
        return _whitened(batch, super().of(batch), self.over, shift=not self.centred)


def _whitened(batch: TokenBatch, values: Tensor, over: str, shift: bool) -> Tensor:
    """[N] or [N, T] values over their deviation, and less their mean if `shift`."""
    weight = batch.mask.to(values)
    if over == "rows":
        weight = weight / batch.mask.sum(1, keepdim=True).clamp(min=1)
    weight = weight if values.dim() == 2 else weight.sum(1)
    values = centred(values, weight) if shift else values
    variance = (weight * values.square()).sum() / weight.sum().clamp(min=torch.finfo(weight.dtype).tiny)
    return values / variance.clamp(min=1e-8).sqrt()


@register
class NoReward(Advantage):
    """No response is better than another: rewards are not looked at.

    No advantage by reward: what else is in the objective says alone what is learnt, as a teacher in `opd`.

    A_i = 0
    """

    paper = "doi:10.64434/tml.20251026"
    reads = frozenset[str]()
    printed = "A = 0"

    def notices(self, parts: Mapping[str, Part]) -> Iterator[str]:
        yield from super().notices(parts)
        is_needed = any(isinstance(part, Surrogate) and part.follows_advantage for part in parts.values())
        weights = [part for part in parts.values() if isinstance(part, Weight)]
        adding = [weight for weight in weights if weight.additive and not weight.shares_advantage]
        if is_needed and not adding:
            yield f"{self.name}: nothing adds to A, which stays 0, so that only added losses teach. Write -{self.name}."
        for weight in weights:
            if adding and all(it.planned for it in adding) and not (weight.additive or weight.planned):
                name, first = weight.qualified_name, adding[0].term()
                yield f"{weight.name}: changes nothing, as A is 0 until {first} adds to it. Write -{name}."
        for part in parts.values():
            if part.goes_by_reward:
                yield f"{part.name}: goes by rewards, which {self.name} does not look at. Write -{part.qualified_name}."

    def of(self, batch: TokenBatch) -> Tensor:
        kind = batch.mask.dtype if batch.reward is None else batch.reward.dtype
        return torch.zeros(len(batch.mask), dtype=torch.promote_types(kind, torch.float32), device=batch.mask.device)


# ---- 4: weights ------------------------------------------------------------------------------------------------------

LEVELS = ("token", "product", "geometric")


@register
class SamplerCorrection(Weight):
    """Weighs each token by how much likelier the trainer's policy makes it than the engine that sampled it, bounded.

    Truncated importance sampling for rollouts of another engine (Yao et al., Your Efficient RL Framework Secretly
    Brings You Off-Policy RL Training, 2025, https://fengyao.notion.site/off-policy-rl).

        A'_it = min( w_it, cap ) A_i,   w_it = pi_old(y_it) / pi_sampler(y_it)
        level=product:  w_i = product over the response's tokens;   level=geometric:  its |y_i|-th root
        outside=drop:   w where low <= w <= cap, 0 elsewhere (IcePop, arXiv:2510.18855)

    pi_sampler is what the rollout engine says it sampled with; kernels, caches and dtypes make it differ from the
    trainer's pi_old. Names in use: truncated importance sampling (TIS) clamps tokens, its sequence form has
    level=product; masked importance sampling (MIS) drops (TRL: level=product, cap=3). What ms-swift calls "sequence" is
    level=geometric.
    Open: the cap; 2 is what the authors' verl examples use. Left out: verl's division by the mean weight.
    Deviations: each log pi_old - log pi_sampler is clamped to [-20, 20], and so is their sum; the weight enters through
    the advantage, which is the same as a factor on the clipped objective, for it is never negative.
    """

    paper = "Yao et al. 2025"
    failure_modes = ("engine_mismatch", "precision")
    reads = frozenset({"logp_old", "logp_sampler"})
    cap: float | None = parameter(2.0, "(0, inf)", "largest weight; none: no bound")
    low: float = parameter(0.0, "[0, inf)", "smallest weight")
    level: str = parameter("token", LEVELS, "whose ratio: the token's, or the response's product or geometric mean")
    outside: str = parameter("clamp", ("clamp", "drop"), "a weight outside becomes the bound, or 0")

    def notices(self, parts: Mapping[str, Part]) -> Iterator[str]:
        yield from super().notices(parts)
        if self.cap is not None and self.low > self.cap:
            yield f"{self.name}: low={self.low:g} exceeds cap={self.cap:g}. Lower one of them."
        for part in parts.values():
            is_late = isinstance(part, Weight) and part.additive and not part.shares_advantage
            if is_late and getattr(part, "source", "") == "current" and NoReward.name not in parts:
                yield f"{self.name}: does not weigh what {part.term()} adds later. Write source=old in it."

    def weight(self, batch: TokenBatch) -> Tensor:
        weight = mismatch(batch, self.level, self.name).exp()
        bounded = weight.clamp(self.low, self.cap)
        return bounded if self.outside == "clamp" else torch.where(bounded == weight, weight, 0.0)

    def formula(self) -> str:
        ratio = {"token": "", "product": "product of ", "geometric": "geometric mean of "}[self.level]
        if self.outside == "clamp" and not self.low:
            return f"A *= {ratio}p_old / p_sampler" + ("" if self.cap is None else f", at most {self.cap:g}")
        band = f"[{self.low:g}, {'inf' if self.cap is None else f'{self.cap:g}'}]"
        return f"A *= {ratio}p_old / p_sampler" + (f" in {band}" if self.outside == "clamp" else f", 0 outside {band}")


def mismatch(batch: TokenBatch, level: str, reader: str) -> Tensor:
    """[N, T] logarithm of pi_old / pi_sampler of each token, of the response's product, or of its geometric mean."""
    difference = batch.require("logp_old", reader) - batch.require("logp_sampler", reader)
    difference = difference.clamp(-20.0, 20.0) * batch.mask
    if level == "token":
        return difference
    total = difference.sum(1, keepdim=True)
    if level == "geometric":
        total = total / batch.mask.sum(1, keepdim=True).clamp(min=1)
    return total.clamp(-20.0, 20.0).expand(batch.mask.shape)
