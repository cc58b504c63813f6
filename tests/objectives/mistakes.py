"""Mistakes that one could make in each method: recipe -> "part.attribute: what is wrong" -> what stands in for it.

Those that a word or a value says are in `mistakes.txt`.

They are written against the kinds of parts alone, and reach a part by its name, so that moving and reformatting
the package leaves them as they are.
"""

import math
from ast import literal_eval
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from objectives import Bounds, TokenBatch, Writer, largest, quantile

Wrong = Callable[[Any], Any]
"""What an attribute of a part is -> what stands in for it."""


# ---- ways of being wrong ---------------------------------------------------------------------------------------------


def always(value: object) -> Wrong:
    """A setting or flag that has this value, whatever it is given."""
    return lambda original: property(lambda self: value, lambda self, given: None)


def instead(function: Callable[..., Any]) -> Wrong:
    """A method of its own."""
    return lambda original: function


def result(change: Callable[..., Any]) -> Wrong:
    """The method with another result, a function of the result and of the arguments after `self`."""
    return lambda original: lambda self, *given: change(original(self, *given), *given)


def given(change: Callable[..., tuple[Any, ...]]) -> Wrong:
    """The method with other arguments."""
    return lambda original: lambda self, *given: original(self, *change(*given))


def on(**changes: Callable[[TokenBatch], Any]) -> Wrong:
    """The method on a batch some of whose fields are these functions of it."""

    def changed(value: Any) -> Any:
        if not isinstance(value, TokenBatch):
            return value
        return value.with_fields(**{name: change(value) for name, change in changes.items()})

    return given(lambda *arguments: tuple(map(changed, arguments)))


def with_negative(name: str) -> Wrong:
    """The method on a batch in which a field, if it is there, has the other sign."""
    return on(**{name: lambda batch: None if getattr(batch, name) is None else -getattr(batch, name)})


def per_group(function: Callable[[Tensor], Tensor]) -> Wrong:
    """An advantage that looks at each group by itself."""

    def advantage(self: object, reward: Tensor, group: Tensor) -> Tensor:
        values = torch.zeros_like(reward)
        for name in group.unique():
            values[group == name] = function(reward[group == name])
        return values

    return instead(advantage)


def with_setting(**changes: Any) -> Wrong:
    """The method of a part with other settings than it has elsewhere."""
    return lambda original: lambda self, *given: original(replace(self, **changes), *given)


def extra(**changes: Callable[[dict[str, Tensor], TokenBatch], Tensor]) -> Wrong:
    """A surrogate whose payload has other values under these names."""
    return result(lambda found, batch: {**found, **{name: change(found, batch) for name, change in changes.items()}})


def clips_also(more: Callable[[Tensor, Tensor, Bounds], Tensor]) -> Wrong:
    return result(lambda clips, ratio, advantage, bounds: clips | more(ratio, advantage, bounds))


def anchored_to_itself(when: Callable[[TokenBatch], bool] = lambda rows: True) -> Wrong:
    def wrong(ratio: Any) -> Any:
        return lambda self, rows, logp: (logp - logp.detach()).exp() if when(rows) else ratio(self, rows, logp)

    return wrong


NAMED = {
    "negated": result(lambda value, *given: -value),
    "detached": result(lambda value, *given: value.detach()),
    "inverse": result(lambda value, *given: 1 / value),
    "nothing clipped": result(lambda clips, *given: clips & False),
    "one group": on(group=lambda batch: batch.group * 0),
    "one group of rewards": given(lambda reward, group: (reward, group * 0)),
    "current for old": on(logp_old=lambda batch: batch.logp),
    "partly right": on(correct=lambda batch: (batch.correct > 0).double()),
    "z-scored": per_group(lambda x: (x - x.mean()) / (x.std() + 1e-6)),
    "centred": per_group(lambda x: x - x.mean()),
    "ratio times advantage": instead(lambda self, ratio, logp, advantage, bounds, extra: -ratio * advantage),
    "with the ratio": lambda loss: lambda self, ratio, *more: ratio * loss(self, ratio, *more),
}
"""What `mistakes.txt` calls by a name."""


# ---- wrong methods of parts ------------------------------------------------------------------------------------------


def live(logp: Tensor) -> Tensor:
    """1, whose derivative by the log-prob is 1."""
    return (logp - logp.detach()).exp()


def log_ratio(rows: TokenBatch, logp: Tensor) -> Tensor:
    """[n, T] of the tokens; 0 where the policy has not moved."""
    return (logp - logp.detach() if rows.logp_old is None else logp - rows.logp_old).clamp(-20, 20)


def responses(batch: TokenBatch) -> Tensor:
    return batch.mask.any(1).sum().clamp(min=1)


def full(batch: TokenBatch, value: Tensor) -> Tensor:
    return value.double().expand(batch.mask.shape)


def lengths(batch: TokenBatch) -> Tensor:
    """[N, 1]"""
    return batch.mask.sum(1, keepdim=True).clamp(min=1)


def longest_response(self: object, batch: TokenBatch, counted: Tensor) -> Tensor:
    return full(batch, 1 / (responses(batch) * counted.sum(1).amax().clamp(min=1)))


def empty_responses_too(self: object, batch: TokenBatch, counted: Tensor) -> Tensor:
    return full(batch, 1 / (len(batch.mask) * counted.sum(1, keepdim=True).clamp(min=1)))


def over_all_responses(coefficients: Any) -> Any:
    return lambda self, batch, counted: coefficients(self, batch, counted) * responses(batch) / len(batch.mask)


def micro_batches_alike(self: object, batch: TokenBatch, counted: Tensor) -> Tensor:
    coefficient = torch.zeros(batch.mask.shape, dtype=torch.float64)
    there = batch.micro_batch[batch.mask.any(1)].unique()
    for number in there:
        rows = batch.micro_batch == number
        coefficient[rows] = 1 / (len(there) * counted[rows].sum().clamp(min=1)).double()
    return coefficient


def not_detached(ratio: Any) -> Any:
    return lambda self, rows, logp: (logp - logp).exp() if rows.logp_old is None else ratio(self, rows, logp)


def k3_reversed(self: Any, rows: TokenBatch, logp: Tensor, entropy: object) -> Tensor:
    difference = logp - rows.logp_ref
    return self.beta * (torch.expm1(difference) - difference)


def value_of_k3_gradient_of_k1(self: Any, rows: TokenBatch, logp: Tensor, entropy: object) -> Tensor:
    difference = logp - rows.logp_ref
    return self.beta * (torch.expm1(-difference).detach() + difference)


def with_ratio_of_the_rollouts(rows: TokenBatch, logp: Tensor, entropy: Tensor | None) -> tuple[object, ...]:
    """The old log-probs follow the current ones, so that their ratio is a constant."""
    if rows.logp_old is not None:
        rows = rows.with_fields(logp_old=rows.logp_old + logp - logp.detach())
    return rows, logp, entropy


def a_quarter_of_the_limit(self: Any, batch: TokenBatch) -> Tensor:
    limit = float(self.max_length or batch.max_length)
    cache = self.cache or limit / 4
    return ((limit - cache - batch.lengths.double()) / cache).clamp(-1, 0)


def mean_confidence(self: Any, batch: TokenBatch) -> Tensor:
    return ((batch.logp_old * batch.mask).sum(1) / batch.mask.sum(1).clamp(min=1)).exp()


def confidence_of_the_padded_width(self: Any, batch: TokenBatch) -> Tensor:
    """The share of positions, whether there is a token or not."""
    logp = batch.logp_old.masked_fill(~batch.mask, 0.0).sort(1).values
    count = max(1, int(logp.shape[1] * self.fraction))
    return (logp[:, :count].sum(1) / count).exp()


def aspo_with(drops_by_weight: bool = False, detached: bool = True, turned: bool = True) -> Wrong:
    def loss(self: Any, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Any) -> Tensor:
        constant = ratio.detach() if detached else ratio
        weight = torch.where((advantage > 0) == turned, 1 / constant, constant)
        dropped = self.clips(weight if drops_by_weight else ratio, advantage, bounds)
        return -weight.clamp(max=self.most) * advantage * torch.where(dropped, 0.0, logp - logp.detach()).exp()

    return instead(loss)


def ce_gppo_differentiated(
    self: Any, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Any
) -> Tensor:
    below, above = (advantage < 0) & (ratio < 1 - bounds.low), (advantage > 0) & (ratio > 1 + bounds.high)
    kept = ratio * torch.where(below, self.beta1, torch.where(above, self.beta2, 1.0))
    return -advantage * torch.where((advantage < 0) & (ratio > bounds.cap), kept.detach(), kept)


def weighted_by(weight: Callable[[Any, Tensor], Tensor]) -> Wrong:
    """A surrogate of log-probs with a weight of its own."""
    return instead(lambda self, ratio, logp, advantage, bounds, extra: -weight(self, ratio) * advantage * live(logp))


def observed_share(self: Any, batch: TokenBatch, aggregate: Any) -> Tensor:
    observed = batch.observed(self.name)
    return self.alpha * observed / (observed | batch.mask).sum().clamp(min=1)


def observed_per_response(self: Any, batch: TokenBatch, aggregate: Any) -> Tensor:
    observed = batch.observed(self.name)
    each = observed / observed.sum(1, keepdim=True).clamp(min=1)
    return self.alpha * each / observed.any(1).sum().clamp(min=1)


def without_ties(kept: Tensor, batch: TokenBatch) -> Tensor:
    return kept & (batch.entropy > batch.entropy[kept].min()) if kept.any() else kept


def top_share_rounded_down(self: Any, batch: TokenBatch) -> Tensor:
    entropy = batch.entropy if self.source == "current" else batch.entropy_old
    return largest(entropy, batch.mask, max(1, math.floor(self.fraction * int(batch.mask.sum()))))


def return_from_the_start(self: Any, reward: Tensor, is_there: Tensor) -> Tensor:
    powers = self.gamma ** torch.arange(reward.shape[1], dtype=reward.dtype)
    return (reward * powers).flip(1).cumsum(1).flip(1)


def gmpo_with(mean_over_padding: bool = False, cut: bool = True, pessimistic: bool = True) -> Wrong:
    def ratio(self: Any, rows: TokenBatch, logp: Tensor) -> Tensor:
        change = log_ratio(rows, logp.detach())
        one_sided = torch.where(rows.advantage < 0, change.clamp(min=-self.low), change.clamp(max=self.high))
        clipped = one_sided if pessimistic else change.clamp(-self.low, self.high)
        count = rows.mask.shape[1] if mean_over_padding else lengths(rows)
        mean = (clipped * rows.mask).sum(1, keepdim=True) / count
        return mean.exp() * torch.where((clipped == change) | (not cut), logp - logp.detach(), 0.0).exp()

    return instead(ratio)


def through_the_mean(self: Any, rows: TokenBatch, logp: Tensor) -> Tensor:
    total = (log_ratio(rows, logp) * rows.mask).sum(1, keepdim=True)
    return (total / lengths(rows) if self.norm == "mean" else total.clamp(-20, 20)).exp().expand(logp.shape)


def over_the_padded_width(self: Any, rows: TokenBatch, logp: Tensor) -> Tensor:
    total = (log_ratio(rows, logp.detach()) * rows.mask).sum(1, keepdim=True)
    return (total / rows.mask.shape[1]).exp() * live(logp)


def over_the_whole_group(found: dict[str, Tensor], batch: TokenBatch) -> Tensor:
    """Over k, not k - 1."""
    size = (batch.group[:, None] == batch.group[None])[:, batch.mask.any(1)].sum(1).clamp(min=1)
    return found["push"] * (size - 1) / size


def kpo_with(seen_only: bool = True, detached: bool = True) -> Wrong:
    def ratio(self: Any, rows: TokenBatch, logp: Tensor) -> Tensor:
        change = log_ratio(rows, logp if not detached else logp.detach())
        state, gain = torch.zeros_like(logp[:, 0]), torch.zeros_like(logp[:, 0])
        states = []
        for t in range(logp.shape[1]):
            there = rows.mask[:, t]
            following = (gain + self.q) / (gain + self.q + 1)
            observed = torch.where(there, change[:, t], 0.0)
            filtered = state + following * (observed - state)
            gain = torch.where(there | (not seen_only), following, gain)
            state = torch.where(there | (not seen_only), filtered, state)
            states.append(state)
        step = logp - logp.detach() if detached else torch.zeros_like(logp)
        return (torch.stack(states, 1) + step).exp()

    return instead(ratio)


def as_in_a_batch_of_one_more(advantage: Tensor, batch: TokenBatch) -> Tensor:
    there = torch.isin(batch.group, batch.group[batch.mask.any(1)]).sum().clamp(min=2)
    return advantage * (there / (there - 1)).sqrt()


def passes_with(change: Callable[[TokenBatch, TokenBatch], TokenBatch]) -> Wrong:
    """The passes, each changed by a function of its batch and of the whole one."""
    return result(lambda passes, batch: [change(part, batch) for part in passes])


def boundary_is_low(self: Any, batch: TokenBatch) -> list[TokenBatch]:
    low = batch.mask & (batch.logp_old.exp() <= self.eta)
    return [batch.with_fields(policy_mask=group, penalty_mask=group) for group in (low, batch.mask & ~low)]


def split_by_the_current_policy(passes: Any) -> Any:
    def wrong(self: Any, batch: TokenBatch) -> list[TokenBatch]:
        now = batch.with_fields(logp_old=batch.logp)
        return [part.with_fields(logp_old=batch.logp_old) for part in passes(self, now)]

    return wrong


def tools_take_part(self: Any, rows: TokenBatch, logp: Tensor) -> Tensor:
    change = log_ratio(rows, logp) * rows.mask
    before = torch.nn.functional.pad(change.detach(), (1, 0), value=torch.inf)[:, :-1].cummin(1).values
    return (change + torch.where(before.isinf(), 0.0, before)).clamp(-20, 20).exp()


def product_of_the_prefix(self: Any, rows: TokenBatch, logp: Tensor) -> Tensor:
    change = log_ratio(rows, logp)
    before = (change.detach() * rows.mask).cumsum(1) - change.detach() * rows.mask
    return (change + before).clamp(-20, 20).exp()


def nft_with(negative: Callable[[Any, Tensor], Tensor], omega: bool = True) -> Wrong:
    """NFT with another logarithm for wrong answers, and perhaps without its weight."""

    def loss(self: Any, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Any) -> Tensor:
        correct, success = extra["correct"][:, None], extra["success"][:, None]
        failure = torch.where(success < 1, 1 - success, 1.0)
        wrong = negative(self, (1 - success * ratio) / failure)
        likelihood = correct * ratio.log() + (1 - correct) * wrong
        return -(1 - success if omega else (success < 1).double()) * likelihood

    return instead(loss)


def straight_through(self: Any, implied: Tensor) -> Tensor:
    value = implied.detach().clamp(min=self.eps)
    return value.log() + (implied - implied.detach()) / value


def without_the_deviation(self: Any, n: int, c: int) -> tuple[float, float]:
    k = min(self.k, n)
    failure = math.comb(n - c, k) / math.comb(n, k)
    return failure, failure - math.comb(max(n - c - 1, 0), k - 1) / math.comb(n - 1, k - 1) if c < n else 0.0


def contrast_without_the_one(self: Any, batch: TokenBatch) -> dict[str, Tensor]:
    """A softmax over the good ones and one over the others, which does not stop."""
    rows = batch.mask.any(1)
    s = (log_ratio(batch, batch.logp) * batch.mask).sum(1) / batch.mask.sum(1).clamp(min=1) / self.tau
    good, push = batch.advantage.sum(1) > 0, torch.zeros_like(s)
    for name in batch.group.unique():
        group = rows & (batch.group == name)
        for kind, sign in ((group & good, 1.0), (group & ~good, -1.0)):
            if (group & good).any() and (group & ~good).any():
                push[kind] = sign * group.sum() / self.tau * (-sign * s[kind]).softmax(0)
    return {"push": push, "value": torch.zeros_like(push)}


def deviation_of_groups(self: object, batch: TokenBatch) -> Tensor:
    reward = batch.reward if batch.reward.dim() == 2 else batch.like_tokens(batch.reward)
    values = torch.zeros_like(reward)
    for name in batch.group.unique():
        rows = batch.group == name
        there = reward[rows][batch.mask[rows]]
        values[rows] = (reward[rows] - there.mean()) / there.std(correction=0).clamp(min=1e-4) if len(there) else 0
    return values


def from_the_next_token_on(self: Any, batch: TokenBatch) -> Tensor:
    divergence = batch.logp_old - batch.logp_ref
    return -self.beta * (divergence.flip(1).cumsum(1).flip(1) - divergence) * batch.mask


def gate(function: Callable[[Tensor, Tensor], Tensor]) -> Wrong:
    """SAPO's surrogate with another function of ratio and tau."""

    def loss(self: Any, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Any) -> Tensor:
        tau = torch.where(advantage > 0, advantage.new_tensor(self.tau_pos), advantage.new_tensor(self.tau_neg))
        return -function(ratio, tau) * advantage

    return instead(loss)


def open_gate(self: Any, rows: TokenBatch, logp: Tensor, entropy: object) -> Tensor:
    return self.coefficient * (rows.logp_teacher - logp)


def differentiated_gate(self: Any, rows: TokenBatch, logp: Tensor, entropy: object) -> Tensor:
    gap = rows.logp_teacher - logp
    return self.coefficient * torch.sigmoid(self.beta * gap) * gap


def spurious(over_all: bool = False, ties: bool = False) -> Wrong:
    """STAPO's mask with a quantile over all tokens, or with tokens on the quantile silenced."""

    def keeps(self: Any, batch: TokenBatch) -> Tensor:
        pool = batch.mask & (batch.advantage > 0) & (batch.logp < math.log(self.tau_p))
        if not pool.any():
            return batch.mask
        boundary = quantile(batch.entropy[batch.mask if over_all else pool], self.q)
        return batch.mask & ~(pool & (batch.entropy <= boundary if ties else batch.entropy < boundary))

    return instead(keeps)


def gate_open_on_its_target(control: Any) -> Any:
    def wrong(self: Any, batch: TokenBatch, state: Any) -> Any:
        values = dict(control(self, batch, state))
        if values and batch.entropy_old[batch.mask].mean() == self.target_entropy:
            values["on"] = 1.0
        return values

    return wrong


def stare_share_rounded_down(self: Any, batch: TokenBatch) -> Tensor:
    weight = torch.ones_like(batch.advantage)
    state = {"on": 1.0, "amplify": self.amplify, "attenuate": self.attenuate, **batch.state.get(self.name, {})}
    for sign, name in ((1, "amplify"), (-1, "attenuate")):
        candidates = batch.mask & (sign * batch.advantage > 0)
        logp = batch.logp if self.source == "current" else batch.logp_old
        chosen = largest(-logp, candidates, max(1, math.floor(int(candidates.sum()) * self.fraction)))
        weight[chosen] = state[name] if state["on"] else 1.0
    return weight


def vespo_differentiated(
    self: Any, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Any
) -> Tensor:
    k, rate = torch.where(advantage < 0, 3.0, 2.0), torch.where(advantage < 0, 2.0, 3.0)
    return -(rate + k * ratio.log() - rate * ratio).exp() * advantage


def positive_mean_over_all(self: Any, batch: TokenBatch, aggregate: Any) -> Tensor:
    return aggregate.coefficients(batch, batch.mask) * (batch.correct == 1)[:, None]


# ---- the mistakes ----------------------------------------------------------------------------------------------------

IN_CODE: dict[str, Wrong] = {
    "advantage_reweighting | advantage_reweighting.weight: probable tokens attenuated": result(
        lambda weight, batch: 2 - weight
    ),
    "advantage_reweighting | advantage_reweighting.weight: only rewarded tokens": result(
        lambda weight, batch: torch.where(batch.advantage > 0, weight, 1.0)
    ),
    "advantage_reweighting | advantage_reweighting.weight: renormalised": result(
        lambda weight, batch: weight / weight[batch.mask].mean()
    ),
    "agpo | agpo.of: wrong groups pushed": on(correct=lambda batch: 1 - batch.correct),
    "agpo | agpo.of: half as much": result(lambda a, batch: torch.where(a.abs() == 1, a / 2, a)),
    "arm | confidence_shift._confidence: share of the padded width": instead(confidence_of_the_padded_width),
    "arm | confidence_shift._confidence: all tokens": instead(mean_confidence),
    "arm | confidence_shift._signal: every group": instead(lambda self, batch: torch.ones_like(batch.mask[:, 0])),
    "aspo | flipped_clip.loss: turned over where A < 0": aspo_with(turned=False),
    "aspo | flipped_clip.loss: dropped by the weight": aspo_with(drops_by_weight=True),
    "aspo | flipped_clip.loss: weight differentiated": aspo_with(detached=False),
    "ce_gppo | gradient_preserving_clip.loss: the loss of good tokens": result(
        lambda loss, ratio, logp, advantage, *more: torch.where(advantage < 0, loss, -loss)
    ),
    "ce_gppo | gradient_preserving_clip.loss: the ratio's gradient outside": instead(ce_gppo_differentiated),
    "cispo | cispo.loss: inverse weight": weighted_by(
        lambda self, r: (1 / r.detach()).clamp(1 - self.low, 1 + self.high)
    ),
    "cispo | cispo.loss: upper width absolute": weighted_by(lambda self, r: r.detach().clamp(1 - self.low, self.high)),
    "cispo | cispo.loss: weight differentiated": weighted_by(lambda self, r: r.clamp(1 - self.low, 1 + self.high)),
    "clip_cov | clip_cov.keeps: drawn among clipped ones too": on(clipped=lambda batch: torch.zeros_like(batch.mask)),
    "dapo | soft_overlong.shaping: a quarter of the limit, not a fifth": instead(a_quarter_of_the_limit),
    "dapo | token_mean.coefficients: padding counted": given(lambda batch, counted: (batch, torch.ones_like(counted))),
    "dapo | token_mean.coefficients: micro-batches weigh the same": instead(micro_batches_alike),
    "dapo | dynamic_sampling.selects: groups judged by their rewards": on(correct=lambda batch: batch.reward),
    "dapo | soft_overlong.shaping: masked tokens not in the length": on(length=lambda batch: batch.mask.sum(1)),
    "dapo | soft_overlong.shaping: an environment's tokens in the length": on(
        length=lambda batch: (batch.writer != Writer.NONE).sum(1)
    ),
    "dapo | clip_higher.modify: lower bound moved as well": result(
        lambda bounds, *given: replace(bounds, low=bounds.high)
    ),
    "dcpo | dynamic_clip.modify: bounds exchanged": result(
        lambda found, *given: replace(found, low=found.high, high=found.low)
    ),
    "dg | delight.weight: a sure token counts fully": result(lambda weight, batch: 2 * weight),
    "dppo | divergence_clip._drops: drops what comes back": given(lambda ratio, logp, a: (ratio, logp, -a)),
    "dppo | divergence_clip._drops: the ratio's change, not the probability's": given(
        lambda ratio, logp, *more: (ratio, torch.zeros_like(logp), *more)
    ),
    "dppo | sampler_ratio.ratio: the trainer's old policy": instead(
        lambda self, rows, logp: log_ratio(rows, logp).exp()
    ),
    "dppo | drift.penalty: the penalty is halved": result(lambda value, *given: value / 2),
    "dr_grpo | constant_length.coefficients: the longest response divides": instead(longest_response),
    "dr_grpo | constant_length.coefficients: empty responses count": over_all_responses,
    "dro | reinforce.loss: with a ratio": given(
        lambda ratio, logp, advantage, *more: (ratio, logp, advantage * ratio.detach(), *more)
    ),
    "echo | observation_nll.coefficients: the policy's tokens counted too": instead(observed_share),
    "echo | observation_nll.coefficients: each response alike": instead(observed_per_response),
    "entropy20 | top_entropy.keeps: ties dropped": result(without_ties),
    "entropy20 | top_entropy.keeps: share rounded down": instead(top_share_rounded_down),
    "entropy_advantage | entropy_advantage.weight: larger in size for both signs": result(
        lambda w, batch: w * batch.advantage.sign()
    ),
    "entropy_advantage | entropy_advantage.weight: no bound": instead(
        lambda self, batch: self.alpha * (batch.entropy if self.planned else batch.entropy_old)
    ),
    "fipo | future_kl.weight: old policy over the current one": on(
        logp=lambda batch: batch.logp_old, logp_old=lambda batch: batch.logp
    ),
    "fipo | future_kl.weight: tools lengthen the distance": on(mask=lambda batch: batch.like_tokens(batch.mask.any(1))),
    "gdpo | decoupled_norm.of: the sum of the rewards": on(rewards=lambda batch: batch.rewards.sum(1, keepdim=True)),
    "gdpo | dynamic_sampling_by_reward.selects: groups judged by the first reward": on(
        rewards=lambda batch: batch.rewards[:, :1]
    ),
    "gigpo | turn_advantage.weight: omega twice": result(lambda value, *_: 2 * value),
    "gigpo | turn_advantage._returns: a turn's own reward alone": instead(lambda self, reward, is_there: reward),
    "gigpo | turn_advantage._returns: discounted from the start": instead(return_from_the_start),
    "gigpo | turn_advantage._advantage: the same state of another prompt": given(
        lambda returns, group, state: (returns, group * 0, state)
    ),
    "gigpo | turn_advantage._advantage: turns of all states": given(
        lambda returns, group, state: (returns, group, state * 0)
    ),
    "gigpo | turn_advantage.weight: a response is one turn": on(turn=lambda batch: batch.turn * 0),
    "gmpo | geometric_ratio.ratio: both sides clipped": gmpo_with(pessimistic=False),
    "gmpo | geometric_ratio.ratio: mean over the padding": gmpo_with(mean_over_padding=True),
    "gmpo | geometric_ratio.ratio: clipped tokens keep their gradient": gmpo_with(cut=False),
    "gpg | scaled_center.of: one share for every group": result(
        lambda advantage, batch: advantage * (advantage != 0).double().mean().clamp(min=0.1)
    ),
    "grpo | kl.penalty: KL's log-ratio reversed": instead(k3_reversed),
    "grpo | clip.clips: ratio on the upper bound clipped": clips_also(lambda r, a, b: (a > 0) & (r >= 1 + b.high)),
    "grpo | clip.clips: ratio on the lower bound clipped": clips_also(lambda r, a, b: (a < 0) & (r <= 1 - b.low)),
    "grpo | group_norm.advantage: std with ddof 0": per_group(lambda x: (x - x.mean()) / (x.std(correction=0) + 1e-6)),
    "grpo | seq_mean.coefficients: divides by the longest response": instead(longest_response),
    "grpo | seq_mean.coefficients: counts empty responses": instead(empty_responses_too),
    "grpo | token_ratio.ratio: ratio against itself, not detached": not_detached,
    "grpo | kl.penalty: value of k3, gradient of k1": instead(value_of_k3_gradient_of_k1),
    "grpo | group_norm.advantage: equal rewards left to rounding": per_group(
        lambda x: (x - x.sum() / len(x)) / (x.std() + 1e-6)
    ),
    "gspo | sequence_ratio.ratio: mean over the padding": instead(over_the_padded_width),
    "gspo | sequence_ratio.ratio: gradient through the mean": instead(through_the_mean),
    "gvpo | group_variance.extra: the mean over tokens": extra(
        push=lambda found, batch: found["push"] / lengths(batch)[:, 0]
    ),
    "gvpo | group_variance.extra: over k": extra(push=over_the_whole_group),
    "hapo | heterogeneous_clip.height: sure tokens count as unsure": result(lambda height, *given: height.abs()),
    "hapo | zone_reweighting.height: sure tokens weighed as unsure": result(lambda height, *given: height.abs()),
    "hapo | heterogeneous_clip.modify: another quantile": with_setting(rho=0.5),
    "hapo | zone_reweighting.weight: zone of PPO": with_setting(alpha=0.0),
    "hapo | zone_reweighting.weight: per micro-batch": with_setting(scope="microbatch"),
    "icepop | sampler_correction.weight: engine over trainer": on(
        logp_old=lambda batch: batch.logp_sampler, logp_sampler=lambda batch: batch.logp_old
    ),
    "justrl | clip.clips: lower bound on rewarded tokens": clips_also(lambda r, a, b: (a > 0) & (r < 1 - b.low)),
    "justrl | token_mean.coefficients: divides by the responses": instead(
        lambda self, batch, counted: full(batch, 1 / responses(batch))
    ),
    "justrl | token_ratio.ratio: anchored to the current policy": anchored_to_itself(),
    "justrl | unbiased_kl.penalty: k3 alone is differentiated": given(with_ratio_of_the_rollouts),
    "kimi | sequence_drift.penalty: the squares of tokens": instead(
        lambda self, rows, logp, entropy: (
            0.05 * (logp - (logp.detach() if rows.logp_old is None else rows.logp_old)).square()
        )
    ),
    "kl_cov | cov_penalty.coefficients: mean over the chosen tokens": result(
        lambda c, *given: c / c.sum().clamp(min=1e-9)
    ),
    "kl_cov | cov_penalty.penalty: squared distance": instead(
        lambda self, rows, logp, entropy: self.beta * (logp - rows.logp_old).square() / 2
    ),
    "kpo | kalman_ratio.ratio: tools pull the filter to 0": kpo_with(seen_only=False),
    "kpo | kalman_ratio.ratio: gradient through the filter": kpo_with(detached=False),
    "lite_ppo | center_batch_std.of: ddof 0": result(as_in_a_batch_of_one_more),
    "lopti | lopti.passes: high tokens first": result(lambda passes, batch: passes[::-1]),
    "lopti | lopti.passes: boundary in the low group": instead(boundary_is_low),
    "lopti | lopti.passes: divides by the pass's tokens": passes_with(
        lambda part, batch: part.with_fields(mask=part.policy_mask)
    ),
    "lopti | lopti.passes: both passes regularise all tokens": passes_with(
        lambda part, batch: part.with_fields(penalty_mask=batch.mask)
    ),
    "lopti | lopti.passes: split by the current policy": split_by_the_current_policy,
    "lopti | token_ratio.ratio: other old log-probs for a pass": anchored_to_itself(
        lambda rows: rows.policy_mask is not None
    ),
    "luspo | seq_sum.coefficients: the mean over tokens of GSPO": instead(
        lambda self, batch, counted: full(batch, 1 / responses(batch) / lengths(batch))
    ),
    "luspo | sequence_ratio.ratio: mean over the padding": instead(over_the_padded_width),
    "luspo | sequence_ratio.ratio: gradient through the mean": instead(through_the_mean),
    "m2po | second_moment_mask.keeps: all tokens": on(
        advantage=lambda batch: batch.advantage if batch.logp_old is None else (batch.logp - batch.logp_old).sign()
    ),
    "m2po | second_moment_clip._tau: clipped within the budget": result(lambda tau, batch: tau.clamp(max=0.1)),
    "magic | adaptive_entropy.control: always on": result(
        lambda state, *given: {**state, "coefficient": state["weight"]}
    ),
    "maxrl | mean_norm.of: rewards, not correctness": instead(
        lambda self, batch: self.advantage(batch.reward, batch.group)
    ),
    "minpro | prefix_min_ratio.ratio: tools take part": instead(tools_take_part),
    "minpro | prefix_min_ratio.ratio: product, not minimum": instead(product_of_the_prefix),
    "nft | implicit_negative.extra: right and wrong exchanged": extra(
        correct=lambda found, batch: 1 - found["correct"]
    ),
    "nft | implicit_negative.loss: clipped value has no gradient": nft_with(
        lambda self, implied: implied.clamp(min=self.eps).log()
    ),
    "nft | implicit_negative.loss: prompts weigh the same": nft_with(straight_through, omega=False),
    "opd | teacher_advantage.weight: the reference for the teacher": on(logp_teacher=lambda batch: batch.logp_ref),
    "opd | teacher_kl.anchor: the reference's divergence": instead("ref"),
    "opo | optimal_baseline.of: every response counts the same": on(mask=lambda batch: torch.ones_like(batch.mask)),
    "otb | optimal_token_baseline.of: without the squares of the others": on(
        sum_pi_squared_old=lambda batch: batch.sum_pi_squared_old * 0
    ),
    "otb | optimal_token_baseline.of: every token weighs the same": on(
        logp_old=lambda batch: batch.logp_old * 0, sum_pi_squared_old=lambda batch: batch.sum_pi_squared_old * 0 + 2
    ),
    "otb | optimal_token_baseline.of: half of it": result(lambda advantage, *given: advantage / 2),
    "par | positive_reweighting.control: forgets its controller": result(
        lambda state, *given: {"weight": 1.0} if state else state
    ),
    "passk | pass_at_k._of_group: the deviation does not divide": instead(without_the_deviation),
    "passk | pass_at_k._of_group: the wrong have none": result(lambda pair, n, c: (pair[0], 0.0)),
    "perplexity_shaping | perplexity_weight.weight: not at all, as in the authors' script": result(
        lambda weight, batch: weight**0
    ),
    "position_shaping | position_bonus.weight: a half of it": result(lambda bonus, batch: bonus / 2),
    "position_shaping | position_bonus.weight: from the end to the start": result(lambda bonus, batch: bonus.flip(1)),
    "positive_nll | positive_nll.coefficients: wrong answers imitated": on(correct=lambda batch: 1 - batch.correct),
    "positive_nll | positive_nll.coefficients: mean over all tokens": instead(positive_mean_over_all),
    "qae | quantile_norm._baseline: largest below": instead(lambda self, rewards: rewards.amin()),
    "qae | quantile_norm.advantage: std with ddof 0": per_group(
        lambda x: (x - x.sort().values[-(-2 * len(x) // 5) - 1]) / (x.std(correction=0) + 1e-6)
    ),
    "real | group_contrast.extra: good and bad exchanged": extra(push=lambda found, batch: -found["push"]),
    "real | group_contrast.extra: no anchor": instead(contrast_without_the_one),
    "real | group_contrast.extra: a prompt counts once, however many responses": extra(
        push=lambda found, batch: found["push"] / (batch.group[:, None] == batch.group[None]).sum(1)
    ),
    "reinforce | seq_sum.coefficients: divides by the longest response": instead(longest_response),
    "reinforce_pp_baseline | center_then_global_norm.of: deviation of the raw rewards": result(
        lambda advantage, batch: advantage / batch.reward.std().clamp(min=1e-4)
    ),
    "reinforce_pp | kl_reward.shaping: divergence from the next token on": instead(from_the_next_token_on),
    "reinforce_pp | global_norm.of: std with ddof 1": result(
        lambda a, batch: a * (1 - 1 / batch.mask.sum().clamp(min=2)).sqrt()
    ),
    "reinforce_pp | global_norm.of: statistics of each group": instead(deviation_of_groups),
    "rloo | seq_sum.coefficients: divides by the longest response": instead(longest_response),
    "rloo | leave_one_out.advantage: equal rewards left to rounding": per_group(
        lambda x: x - (x.sum() - x) / (len(x) - 1)
    ),
    "rlsd | evidence_reweighting.weight: evidence for a token counts for bad responses too": on(
        advantage=lambda batch: batch.advantage.abs()
    ),
    "rlsd | evidence_reweighting.weight: its inverse": result(lambda weight, *given: 2 - weight),
    "s_grpo | random_tokens.keeps: the first token always": result(
        lambda kept, batch: kept | (batch.mask & (batch.mask.cumsum(1) == 1))
    ),
    "s_grpo | random_tokens.keeps: responses are drawn, not tokens": result(
        lambda kept, *given: kept[:, :1].expand(kept.shape)
    ),
    "sapo | soft_gate.loss: gate closed by small ratios": gate(lambda r, t: 4 / t * (t * (1 - r)).sigmoid()),
    "sapo | soft_gate.loss: slope not one": gate(lambda r, t: 4 * (t * (r - 1)).sigmoid()),
    "sapo | soft_gate.loss: gate of the log-ratio": gate(lambda r, t: 4 / t * (t * r.log()).sigmoid()),
    "sapo | soft_gate.loss: gate as a detached weight": gate(
        lambda r, t: (4 / t * (t * (r - 1)).sigmoid()).detach() * r / r.detach()
    ),
    "sdar | gated_distillation.penalty: without a gate": instead(open_gate),
    "sdar | gated_distillation.penalty: the gate is differentiated": instead(differentiated_gate),
    "shuffle_r1 | extreme_pairs.selects: the middle": result(lambda selected, batch: ~selected),
    "shuffle_r1 | extreme_pairs.selects: without the worst": result(
        lambda selected, batch: selected & (batch.reward > batch.reward.mean())
    ),
    "stapo | s2t.keeps: ties at the quantile masked": spurious(ties=True),
    "stapo | s2t.keeps: quantile over all tokens": spurious(over_all=True),
    "stare | surprisal_reweighting.control: gate inverted": result(
        lambda state, *given: {**state, "on": 1 - state["on"]} if state else state
    ),
    "stare | surprisal_reweighting.control: gate open on its target": gate_open_on_its_target,
    "stare | surprisal_reweighting.weight: A = 0 is a candidate": on(
        advantage=lambda batch: torch.where(batch.advantage == 0, 1e-300, batch.advantage)
    ),
    "stare | surprisal_reweighting.weight: share rounded down": instead(stare_share_rounded_down),
    "stare | surprisal_reweighting.weight: weights renormalised": result(
        lambda weight, batch: weight / weight[batch.mask].mean()
    ),
    "topr | taper.loss: right answers tapered as well": weighted_by(
        lambda self, r: r.detach().clamp(self.low, self.high)
    ),
    "topr | taper.loss: weight differentiated": instead(
        lambda self, r, logp, a, *more: -a * r.clamp(self.low, self.high).where(a < 0, live(logp))
    ),
    "tpo | target_match.extra: away from the target": extra(push=lambda found, batch: -found["push"]),
    "tpo | target_match.extra: a target without the old policy": on(logp_old=lambda batch: batch.logp_old * 0),
    "tpo | target_match.extra: the mean over tokens": extra(
        push=lambda found, batch: found["push"] / lengths(batch)[:, 0]
    ),
    "tpo | population_norm.advantage: the deviation of a sample": result(
        lambda advantage, reward, group: advantage * (1 - 1 / (group[:, None] == group[None]).sum(1)).sqrt()
    ),
    "up | unbounded_positive.loss: good tokens by the old policy": instead(
        lambda self, r, logp, a, bounds, extra: -a * torch.where(self.clips(r, a, bounds), r.detach(), r)
    ),
    "up | unbounded_positive.loss: the value without its gradient": result(lambda loss, *given: 2 * loss),
    "vespo | gamma_gate.loss: the inverse weight": given(lambda ratio, *more: (1 / ratio, *more)),
    "vespo | gamma_gate.loss: weight differentiated": instead(vespo_differentiated),
    "w_reinforce | answer_filter.selects: psr trains on wrong answers": result(lambda kept, batch: ~kept),
    "w_reinforce | signed_reward.of: a baseline": result(lambda advantage, batch: advantage - advantage.mean()),
}
"""Those that need a function: 'recipe | part.attribute: what is wrong' -> what stands in for it."""


def entries() -> Iterator[tuple[str, str, Wrong]]:
    """Recipe, mistake, and what stands in."""
    for name, wrong in IN_CODE.items():
        yield *name.split(" | "), wrong
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            recipe, mistake, wrong = line.split(" | ")
            if wrong.startswith("= "):
                yield recipe, mistake, always(literal_eval(wrong[2:]))
            elif wrong.startswith("negative "):
                yield recipe, mistake, with_negative(wrong.removeprefix("negative "))
            else:
                yield recipe, mistake, NAMED[wrong]


MISTAKES: dict[str, dict[str, Wrong]] = {}
for recipe, mistake, wrong in entries():
    MISTAKES.setdefault(recipe, {})[mistake] = wrong
