"""GRPO, its corrections, and the settings that other methods start from."""

from collections.abc import Mapping

from objectives.batch import TokenBatch
from objectives.errors import ObjectiveError
from objectives.ops import Tensor, centred, group_centred, group_deviation, group_index, group_is_there, torch
from objectives.part import Advantage, Aggregate, Bounds, Extra, Penalty, parameter
from objectives.parts.advantages import GroupCenter
from objectives.parts.losses import Clip
from objectives.recipes import recipe
from objectives.zoo import register

recipe(
    "grpo",
    "group_norm+token_ratio+clip+seq_mean+kl+single_pass",
    paper="arXiv:2402.03300",
    summary="group-relative advantages in PPO's surrogate, mean per response, KL to the reference",
    contribution=("group_norm",),
)
"""GRPO: group-relative policy optimisation (Shao et al., DeepSeekMath, arXiv:2402.03300, eq. 3-4).

    J = E_q (1/G) sum_i (1/|y_i|) sum_t
            { min[ r A, clip(r, 1 - eps, 1 + eps) A ] - beta KL_it }
    A_i = (R_i - mean_group) / std_group,
    KL_it = pi_ref/pi - log(pi_ref/pi) - 1

Open in the paper, and the reading taken: eps = 0.2 (not reported); std with ddof 1 and 1e-6 added (verl; the
advantages that STAPO prints imply ddof 1 there). Deviations: a reward equal to its group's mean up to rounding, and
so every reward of an equal-reward group, has an advantage of exactly zero.
"""


recipe(
    "dr_grpo",
    "grpo+group_center+constant_length-kl",
    paper="arXiv:2503.20783",
    summary="GRPO without the standard deviation and the response's length in the denominators",
)
"""Dr. GRPO (Liu et al., Understanding R1-Zero-Like Training, arXiv:2503.20783): GRPO without its two divisions.

    J = (1/G) sum_i (1/L_max) sum_t min( r A, clip(r, 0.8, 1.2) A ),   A_i = R_i - mean_group

Neither the response's length nor the group's standard deviation divides; L_max is the response limit, as in the code.
No KL. Against token_mean the gradient is smaller by about the mean length over L_max.
"""


recipe(
    "dapo",
    "grpo+soft_overlong+dynamic_sampling+clip_higher+token_mean-kl",
    authors="dapo+dual_clip(cap=10)+token_mean(scope=microbatch)",
    paper="arXiv:2503.14476",
    summary="clip-higher, dynamic sampling, token-level loss, soft overlong punishment; no KL",
)
"""DAPO (Yu et al., arXiv:2503.14476, eq. 8-13): clip-higher, dynamic sampling, token-level loss, overlong shaping.

    J = E [ 1 / sum_i |y_i|  sum_i sum_t min( r A, clip(r, 0.8, 1.28) A ) ],
    0 < #correct < G

Open in the paper: over what the token mean runs. Its formula says the prompt (scope=prompt); its code says the
micro-batch (scope=microbatch); the default here is the mini-batch, as in later frameworks.
Deviations: soft_overlong's lengths follow the run's response limit unless given, in the paper's proportion 4096/20480.
The recipe leaves overlong_filter out, as the authors' best runs did. A truncated response earns nothing here; theirs is
graded by its text, as with task.grade_truncated=true.
Variant authors (verl recipe/dapo): dual_clip(cap=10); token mean per micro-batch, weighted by its rows. Its punishment
goes on growing behind the limit, where no response of a run is: 7 batches made to have one differ by 0.5 of the largest
gradient (median).
"""


recipe(
    "justrl",
    "grpo+clip_higher+token_mean-kl",
    authors="justrl+dual_clip(cap=10)+token_mean(scope=microbatch)",
    paper="arXiv:2512.16649",
    summary="binary rewards, clip-higher, token-level loss; no KL, no shaping, no filtering",
)
"""JustRL (He et al., arXiv:2512.16649): GRPO with binary rewards and clip-higher, and nothing else.

    J = token mean of min( r A, clip(r, 0.8, 1.28) A ),  A z-scored per group

The paper gives no formula; this is what its run script does: DAPO without dynamic sampling and overlong shaping.
Open: "standard GRPO" would be the mean per response; the script, and later papers on it, take the token mean.
Deviations: a truncated response earns nothing; the authors grade its text (here task.grade_truncated=true).
Their logged entropy may be misaligned with its tokens (issue 5 of their repository).
Variant authors (vendored verl): dual_clip(cap=10); token mean per micro-batch, weighted by its rows.
"""


@register
class CenterBatchStd(GroupCenter):
    """Reward minus the group's mean, over the standard deviation (ddof 1) of the batch's rewards."""

    failure_modes = ("few_responses",)
    printed = "A = (R - mean over the group) / (std over the batch + {eps:g})"
    eps: float = parameter(1e-4, "[0, inf)", "added to the standard deviation")

    def of(self, batch: TokenBatch) -> Tensor:
        above, reward = super().of(batch), batch.require("reward", self.name)
        index, groups = group_index(batch.require("group", self.name))
        there = group_is_there(batch.mask, index, groups).to(reward)
        variance = (there * centred(reward, there).square()).sum() / (there.sum() - 1).clamp(min=1)
        return above.where(above == 0, above / (variance.sqrt() + self.eps))


recipe(
    "lite_ppo",
    "grpo+center_batch_std+token_mean-kl",
    paper="arXiv:2508.08221",
    summary="group means taken off, the deviation of all rewards divides; mean over all tokens",
)
"""Lite PPO (Liu et al., Part I: Tricks or Traps?, arXiv:2508.08221): PPO's clip without a critic, and two tricks.

    A_i = (R_i - mean_group) / (std_batch + 1e-4);  clip(0.2), mean over all tokens

The deviation is that of all rewards of the step, ddof 1, before anything is taken off, as in TRL (scale_rewards=batch):
not that of the centred rewards, which center_then_global_norm takes, and every response counts the same.
"""


@register
class DecoupledNorm(Advantage):
    """Each reward's z-score within the group, added up, over the deviation of the sums in the batch."""

    failure_modes = ("noisy_rewards",)
    minimum_group = 2
    reads = frozenset({"rewards", "group"})
    eps: float = parameter(1e-4, "[0, inf)", "added to the standard deviations")
    over: str = parameter("rows", ("rows", "tokens"), "what counts the same in the batch")

    @property
    def centred(self) -> bool:
        return self.over == "rows"

    def of(self, batch: TokenBatch) -> Tensor:
        rewards, (index, groups) = batch.require("rewards", self.name), group_index(batch.require("group", self.name))
        weights = batch.reward_weights or (1.0,) * rewards.shape[1]
        if len(weights) != rewards.shape[1]:
            raise ObjectiveError(f"{self.name}: {len(weights)} reward_weights for {rewards.shape[1]} rewards")
        total = torch.zeros_like(rewards[:, 0])
        for weight, reward in zip(weights, rewards.unbind(1), strict=True):
            apart = group_centred(reward, index, groups)
            scores = apart / (group_deviation(apart, index, groups) + self.eps)[index]
            total += weight * torch.where(apart == 0, 0.0, scores)
        if self.over == "tokens":
            count = batch.mask.sum(1).to(total)
            total = centred(total, count)
            variance = (count * total.square()).sum() / (count.sum() - 1).clamp(min=1)
            return total * (variance + 1e-8).rsqrt()
        there = group_is_there(batch.mask, index, groups).to(total)
        deviation = ((there * total.square()).sum() / (there.sum() - 1).clamp(min=1)).sqrt()
        return torch.where(total == 0, 0.0, total / (deviation + self.eps))

    def formula(self) -> str:
        each = f"w (R_k - mean) / (std + {self.eps:g}) over the group"
        return f"A = sum of {each}, over its std over the batch's {self.over}"


recipe(
    "gdpo",
    "grpo+decoupled_norm+token_mean-kl",
    verl="gdpo(eps=1e-6,over=tokens)+dual_clip",
    paper="arXiv:2601.05242",
    summary="several rewards, each normalised by itself before they are added up",
    contribution=("decoupled_norm",),
)
"""GDPO: rewards normalised one by one (Liu et al., arXiv:2601.05242, as the authors' copy of TRL has it).

    A_ki = (R_ki - mean_group) / (std_group + eps) of each reward k,   A_i = sum_k w_k A_ki
    A'_i = A_i / (std of A over the batch + eps)

A reward that hardly varies has as much to say as one that does. R_k are the values of several functions in task.reward,
w task.reward_weights; what shapes their sum does not go with it, dynamic_sampling_by_reward does.
Open: what is around the advantage; here a clip at 0.2 and the mean over all tokens, as in the authors' copy of verl.
Deviations: TRL's eps, 1e-4; the batch's mean, 0 but for rounding, is not taken off: equal rewards have exactly zero.
Variant verl: eps = 1e-6; mean and deviation over the batch's tokens, 1e-8 added to the variance; dual_clip(cap=3).
"""


@register
class SymmetricClip(Clip):
    """PPO's clipped surrogate, and the reverse cross-entropy of the tokens that it does not clip."""

    acts_on_policy = True
    failure_modes = ("noisy_rewards",)
    alpha: float = parameter(0.5, "[0, inf)", "weight of PPO's surrogate")
    beta: float = parameter(0.4, "[0, inf)", "weight of the reverse cross-entropy")

    def loss(self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Extra) -> Tensor:
        clipped = super().loss(ratio, logp, advantage, bounds, extra)
        reverse = torch.where(self.clips(ratio, advantage, bounds), 0.0, -advantage * ratio)
        return self.alpha * clipped + self.beta * reverse

    def equation(self, numbers: Mapping[str, str]) -> str:
        cut = f"A > 0 and r > {numbers['high']} or A < 0 and r < {numbers['low']}"
        cut += f" or A < 0 and r > {numbers['cap']}" if "cap" in numbers else ""
        return f"({self.alpha:g} {super().equation(numbers)} + (0 where {cut}, {self.beta:g} r A elsewhere))"


recipe(
    "symmetric_loss",
    "grpo+symmetric_clip+token_mean-kl",
    paper="arXiv:2405.17618",
    summary="PPO and reverse cross-entropy, against wrong rewards; its gradient is PPO's, scaled",
    contribution=("symmetric_clip",),
)
"""Symmetric loss (Byun and Perrault, Symmetric Reinforcement Learning Loss, arXiv:2405.17618), as its code has it.

    L = alpha L_PPO + beta L_reverse,   L_reverse = A (1 - pi) / pi_old where PPO's clip is idle, 0 elsewhere (Z = -1)

Where rewards are wrong, as where labels are, cross-entropy backwards is to hold against it. 1 - pi is what all other
tokens have. alpha and beta are 0.5 and 0.4 in their script for IMDB, 0.5 and 0.2 in that for TL;DR.
Note: where the clip is idle the gradient of L_reverse is that of -r A, PPO's own. So the whole gradient is alpha + beta
times PPO's, and the same under Adam, which divides by its size.
Deviations: A / pi_old, which has no gradient and overflows for rare tokens, is left out of the loss. Left out: their
value loss and the likelihood of reference texts. Open: their advantage is GAE's, whitened; here GRPO's.
"""


@register
class PositiveNLL(Penalty):
    """Negative log-likelihood of right answers."""

    failure_modes = ("hard_problems",)
    chooses = True
    reads = frozenset({"correct"})
    printed = "- {mu:g} * mean of log p over the tokens of right answers"
    mu: float = parameter(0.1, "[0, inf)", "weight of the likelihood in the loss", idle=0)

    def coefficients(self, batch: TokenBatch, aggregate: Aggregate) -> Tensor:
        tokens = batch.mask & batch.right(self.name)[:, None]
        return tokens.to(batch.require("advantage", self.name)) / tokens.sum().clamp(min=1)

    def penalty(self, rows: TokenBatch, logp: Tensor, entropy: Tensor | None) -> Tensor:
        return -self.mu * logp


recipe(
    "positive_nll",
    "justrl+positive_nll",
    paper="arXiv:2504.05118",
    summary="right answers are imitated beside what the advantages say",
)
"""Positive-example likelihood (VAPO, Yue et al., arXiv:2504.05118): right answers are imitated as well.

    L = L_PPO + mu L_NLL,   L_NLL = -(mean over the tokens of right responses of log pi(y_it)),   mu = 0.1

It acts whatever the advantage, and so on groups that are all right; dynamic_sampling removes those first.
On VAPO's clip(0.8, 1.28) and mean over all tokens, with GRPO's advantage: its value network is not here. Deviations:
right is what is correct in full; the mean is the mini-batch's (NeMo-RL takes it over each micro-batch).
"""
