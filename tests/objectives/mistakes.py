"""Mistakes that one could make in each method: recipe -> "part.attribute: what is wrong" -> what stands in for it.

Those that a word or a value says are in `mistakes.txt`.

They are written against the kinds of parts alone, and reach a part by its name, so that moving and reformatting
the package leaves them as they are.
"""

from ast import literal_eval
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from objectives import Bounds, TokenBatch, Writer

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
    "all kept": result(lambda keeps, *given: keeps | True),
    "good alone": instead(lambda self, batch: batch.advantage > 0),
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


def empty_responses_too(self: object, batch: TokenBatch, counted: Tensor) -> Tensor:
    return full(batch, 1 / (len(batch.mask) * counted.sum(1, keepdim=True).clamp(min=1)))


def over_all_responses(coefficients: Any) -> Any:
    return lambda self, batch, counted: coefficients(self, batch, counted) * responses(batch) / len(batch.mask)


def weighted_by(weight: Callable[[Any, Tensor], Tensor]) -> Wrong:
    """A surrogate of log-probs with a weight of its own."""
    return instead(lambda self, ratio, logp, advantage, bounds, extra: -weight(self, ratio) * advantage * live(logp))


def passes_with(change: Callable[[TokenBatch, TokenBatch], TokenBatch]) -> Wrong:
    """The passes, each changed by a function of its batch and of the whole one."""
    return result(lambda passes, batch: [change(part, batch) for part in passes])


def gate(function: Callable[[Tensor, Tensor], Tensor]) -> Wrong:
    """SAPO's surrogate with another function of ratio and tau."""

    def loss(self: Any, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Any) -> Tensor:
        tau = torch.where(advantage > 0, advantage.new_tensor(self.tau_pos), advantage.new_tensor(self.tau_neg))
        return -function(ratio, tau) * advantage

    return instead(loss)


def gate_open_on_its_target(control: Any) -> Any:
    def wrong(self: Any, batch: TokenBatch, state: Any) -> Any:
        values = dict(control(self, batch, state))
        if values and batch.entropy_old[batch.mask].mean() == self.target_entropy:
            values["on"] = 1.0
        return values

    return wrong


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
    "arm | confidence_shift._signal: every group": instead(lambda self, batch: torch.ones_like(batch.mask[:, 0])),
    "ce_gppo | gradient_preserving_clip.loss: the loss of good tokens": result(
        lambda loss, ratio, logp, advantage, *more: torch.where(advantage < 0, loss, -loss)
    ),
    "cispo | cispo.loss: inverse weight": weighted_by(
        lambda self, r: (1 / r.detach()).clamp(1 - self.low, 1 + self.high)
    ),
    "cispo | cispo.loss: upper width absolute": weighted_by(lambda self, r: r.detach().clamp(1 - self.low, self.high)),
    "cispo | cispo.loss: weight differentiated": weighted_by(lambda self, r: r.clamp(1 - self.low, 1 + self.high)),
    "clip_cov | clip_cov.keeps: drawn among clipped ones too": on(clipped=lambda batch: torch.zeros_like(batch.mask)),
    "dapo | token_mean.coefficients: padding counted": given(lambda batch, counted: (batch, torch.ones_like(counted))),
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
    "dr_grpo | constant_length.coefficients: empty responses count": over_all_responses,
    "dro | reinforce.loss: with a ratio": given(
        lambda ratio, logp, advantage, *more: (ratio, logp, advantage * ratio.detach(), *more)
    ),
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
    "gigpo | turn_advantage._advantage: the same state of another prompt": given(
        lambda returns, group, state: (returns, group * 0, state)
    ),
    "gigpo | turn_advantage._advantage: turns of all states": given(
        lambda returns, group, state: (returns, group, state * 0)
    ),
    "gigpo | turn_advantage.weight: a response is one turn": on(turn=lambda batch: batch.turn * 0),
    "gpg | scaled_center.of: one share for every group": result(
        lambda advantage, batch: advantage * (advantage != 0).double().mean().clamp(min=0.1)
    ),
    "grpo | clip.clips: ratio on the upper bound clipped": clips_also(lambda r, a, b: (a > 0) & (r >= 1 + b.high)),
    "grpo | clip.clips: ratio on the lower bound clipped": clips_also(lambda r, a, b: (a < 0) & (r <= 1 - b.low)),
    "grpo | group_norm.advantage: std with ddof 0": per_group(lambda x: (x - x.mean()) / (x.std(correction=0) + 1e-6)),
    "grpo | seq_mean.coefficients: counts empty responses": instead(empty_responses_too),
    "grpo | group_norm.advantage: equal rewards left to rounding": per_group(
        lambda x: (x - x.sum() / len(x)) / (x.std() + 1e-6)
    ),
    "gvpo | group_variance.extra: the mean over tokens": extra(
        push=lambda found, batch: found["push"] / lengths(batch)[:, 0]
    ),
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
    "lopti | lopti.passes: high tokens first": result(lambda passes, batch: passes[::-1]),
    "lopti | lopti.passes: divides by the pass's tokens": passes_with(
        lambda part, batch: part.with_fields(mask=part.policy_mask)
    ),
    "lopti | lopti.passes: both passes regularise all tokens": passes_with(
        lambda part, batch: part.with_fields(penalty_mask=batch.mask)
    ),
    "lopti | token_ratio.ratio: other old log-probs for a pass": anchored_to_itself(
        lambda rows: rows.policy_mask is not None
    ),
    "luspo | seq_sum.coefficients: the mean over tokens of GSPO": instead(
        lambda self, batch, counted: full(batch, 1 / responses(batch) / lengths(batch))
    ),
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
    "nft | implicit_negative.extra: right and wrong exchanged": extra(
        correct=lambda found, batch: 1 - found["correct"]
    ),
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
    "passk | pass_at_k._of_group: the wrong have none": result(lambda pair, n, c: (pair[0], 0.0)),
    "perplexity_shaping | perplexity_weight.weight: not at all, as in the authors' script": result(
        lambda weight, batch: weight**0
    ),
    "position_shaping | position_bonus.weight: a half of it": result(lambda bonus, batch: bonus / 2),
    "position_shaping | position_bonus.weight: from the end to the start": result(lambda bonus, batch: bonus.flip(1)),
    "positive_nll | positive_nll.coefficients: wrong answers imitated": on(correct=lambda batch: 1 - batch.correct),
    "qae | quantile_norm._baseline: largest below": instead(lambda self, rewards: rewards.amin()),
    "qae | quantile_norm.advantage: std with ddof 0": per_group(
        lambda x: (x - x.sort().values[-(-2 * len(x) // 5) - 1]) / (x.std(correction=0) + 1e-6)
    ),
    "real | group_contrast.extra: good and bad exchanged": extra(push=lambda found, batch: -found["push"]),
    "real | group_contrast.extra: a prompt counts once, however many responses": extra(
        push=lambda found, batch: found["push"] / (batch.group[:, None] == batch.group[None]).sum(1)
    ),
    "reinforce_pp_baseline | center_then_global_norm.of: deviation of the raw rewards": result(
        lambda advantage, batch: advantage / batch.reward.std().clamp(min=1e-4)
    ),
    "reinforce_pp | global_norm.of: std with ddof 1": result(
        lambda a, batch: a * (1 - 1 / batch.mask.sum().clamp(min=2)).sqrt()
    ),
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
    "shuffle_r1 | extreme_pairs.selects: the middle": result(lambda selected, batch: ~selected),
    "shuffle_r1 | extreme_pairs.selects: without the worst": result(
        lambda selected, batch: selected & (batch.reward > batch.reward.mean())
    ),
    "stare | surprisal_reweighting.control: gate inverted": result(
        lambda state, *given: {**state, "on": 1 - state["on"]} if state else state
    ),
    "stare | surprisal_reweighting.control: gate open on its target": gate_open_on_its_target,
    "stare | surprisal_reweighting.weight: A = 0 is a candidate": on(
        advantage=lambda batch: torch.where(batch.advantage == 0, 1e-300, batch.advantage)
    ),
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
