"""Losses over a group in place of the policy gradient: likelihoods, contrasts, regressions."""

from collections.abc import Iterator, Mapping

from objectives.batch import Prepared, TokenBatch
from objectives.ops import Tensor, group_centred, group_index, group_log_softmax, group_mean, group_sum, settled, torch
from objectives.part import Advantage, Bounds, Extra, Part, Surrogate, parameter
from objectives.parts.losses import log_ratio
from objectives.recipes import recipe
from objectives.zoo import register


@register
class ImplicitNegative(Surrogate):
    """Likelihood of right answers, and of wrong ones under the policy that is implied for them."""

    follows_advantage = False
    advantage_beside = "group_center"
    reads = frozenset({"correct", "group"})
    printed = "(1 - rho) (c log r + (1 - c) log(max_v((1 - rho r)/(1 - rho), {eps:g})))"
    explained = "rho = mean of c over the group; max_v clips the value and keeps the gradient"
    eps: float = parameter(1.0, "(0, inf)", "smallest ratio of the implied policy that counts")

    def extra(self, batch: TokenBatch) -> Extra:
        correct = batch.require("correct", self.name).to(batch.require("advantage", self.name))
        index, groups = group_index(batch.require("group", self.name))
        return {"correct": correct, "success": group_mean(correct, index, groups)[index]}

    def loss(self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Extra) -> Tensor:
        correct, success = extra["correct"][:, None], extra["success"][:, None]
        failure = torch.where(success < 1, 1 - success, 1.0)
        implied = (1 - success * ratio) / failure
        value = implied.detach().clamp(min=self.eps)
        negative = value.log() + (implied - implied.detach()) / value
        return -(1 - success) * (correct * ratio.log() + (1 - correct) * negative)


recipe(
    "nft",
    "grpo+group_center+implicit_negative+token_mean-kl",
    paper="arXiv:2505.18116",
    summary="likelihood of right answers, and of an implied policy for wrong ones; no advantage",
    contribution=("implicit_negative",),
)
"""NFT: negative-aware fine-tuning (Chen et al., Bridging Supervised Learning and RL, arXiv:2505.18116).

    L = -sum_i omega sum_t [ c_i log r_it + (1 - c_i) log max_v( (1 - p r_it) / (1 - p), eps ) ]

c is correctness, p its mean over the group, omega = 1 - p; max_v clips the value and keeps the gradient. A wrong answer
trains the policy that would be left without the right ones. The advantage has no say, so weights may not be added.
On-policy the gradient is that of c - p, Dr. GRPO's.
Deviations: the equation has no denominator, the authors' code sums tokens and rows over the constant 1000, here it is
the mean over all tokens; their code keeps p within [0.02, 0.98] and log r below 10.
"""


_SIGNS_OF_GROUP_CENTER = (
    *("group_norm", "leave_one_out", "center_batch_std", "scaled_center", "population_norm", "center_then_global_norm"),
    "no_reward",
)
"""Advantages with the sign of `group_center` in every batch, and one without a sign."""


@register
class GroupContrast(Surrogate):
    """Tells the good responses of a group from the others by how far the policy has moved towards each."""

    follows_advantage = False
    reads_ratio = False
    reads = frozenset({"group"})
    reads_once_moved = frozenset({"logp", "logp_old"})
    explained = "s = mean over a response of log p/p_old, and groups of one kind are left out"
    tau: float = parameter(0.5, "(0, inf)", "temperature of the classification")

    def notices(self, parts: Mapping[str, Part]) -> Iterator[str]:
        yield from super().notices(parts)
        for part in parts.values():
            if part.name in _SIGNS_OF_GROUP_CENTER and getattr(part, "over", "rows") == "rows":
                yield f"{part.name}: {self.name} reads only the sign of A. Write group_center in its place."

    def extra(self, batch: TokenBatch) -> Extra:
        index, groups = group_index(batch.require("group", self.name))
        advantage = batch.require("advantage", self.name)
        change = torch.zeros_like(advantage)
        if not batch.on_policy:
            change = log_ratio(batch, batch.require("logp", self.name), self.name) * batch.mask
        good = advantage.sum(1) > 0
        sign, there = torch.where(good, 1.0, -1.0).double(), batch.mask.any(1)
        score = (-sign * change.double().sum(1) / batch.mask.sum(1).clamp(min=1) / self.tau).where(there, -torch.inf)
        kind = 2 * index + good  # the good ones of a group, or the others
        highest = score.new_zeros(2 * groups).scatter_reduce(0, kind, score, "amax")
        total = highest + ((-highest).exp() + group_sum((score - highest[kind]).exp(), kind, 2 * groups)).log()
        both = (group_sum(there.to(score), kind, 2 * groups) > 0).view(-1, 2).all(1)[index]
        size = group_sum(there.to(score), index, groups)[index]
        terms = {
            "slope": sign * size * (score - total[kind]).exp() / self.tau,
            "value": total.view(-1, 2).sum(1)[index],
        }
        return {name: values.where(both, 0.0).to(advantage) for name, values in terms.items()}

    def loss(self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Extra) -> Tensor:
        return settled(extra, logp)

    def formula(self) -> str:
        sums = "(1 + sum of exp({}s/{:g}) over those with A {} 0)".format
        return f"(-log{sums('-', self.tau, '>')} - log{sums('', self.tau, '<=')})"


recipe(
    "real",
    "grpo+group_center+group_contrast+seq_mean-kl",
    paper="arXiv:2602.05630",
    summary="right and wrong responses of a group told apart by a bounded classification",
    contribution=("group_contrast", "seq_mean"),
    essence=("group_contrast",),
)
"""REAL: rewards as labels of a classification within the group (arXiv:2602.05630, as ms-swift has it).

    L = mean over prompts of  log(1 + sum_{A_i > 0} e^{-s_i / tau}) + log(1 + sum_{A_i <= 0} e^{s_i / tau})
    s_i = mean_t log pi/pi_old of response i,   tau = 0.5;   groups of one kind are left out

The gradient of a response is at most 1/tau, and smaller the better it is separated from the others: right ones that
became unlikely and wrong ones that became likely count most. Only the sign of the advantage has a say: weights may not
be added.
Adding it brings the mean over responses, in which the loss of each is its group's. Where groups differ in size, a
prompt counts by its responses. Deviations: each log-ratio is clamped to [-20, 20].
Means are over the policy's tokens.
"""


@register
class GroupVariance(Surrogate):
    """Fits each response's change of log-prob, less its group's mean, to its advantage."""

    failure_modes = ("stale_rollouts", "many_epochs")
    follows_advantage = False
    reads_ratio = False
    minimum_group = 2
    reads = frozenset({"group"})
    reads_once_moved = frozenset({"logp", "logp_old"})
    printed = "(-k / (2 (k - 1) n) (A - {beta:g} (s - sg[s_mean]))^2)"
    explained = "s = sum over a response of log p/p_old, s_mean its mean over the group of k, n tokens of the response"
    beta: float = parameter(0.1, "(0, inf)", "advantage that one nat of log-prob is worth")

    def extra(self, batch: Prepared) -> Extra:
        index, groups = group_index(batch.require("group", self.name))
        tokens, there = batch.mask.sum(1).clamp(min=1), batch.mask.any(1).double()
        change = there * 0
        if not batch.on_policy:
            logp = batch.require("logp", self.name)
            change = self.beta * (log_ratio(batch, logp, self.name) * batch.mask).double().sum(1)
        size = group_sum(there, index, groups)[index]
        left = batch.advantage.double().sum(1) / tokens - change
        left = left + (group_sum(change * there, index, groups)[index]) / size.clamp(min=1)
        scale = (there * size / (size - 1)).where(size > 1, 0.0)
        terms = {"slope": scale * self.beta * left, "value": scale * left.square() / 2 / tokens}
        return {name: values.to(batch.advantage) for name, values in terms.items()}

    def loss(self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Extra) -> Tensor:
        return settled(extra, logp)


recipe(
    "gvpo",
    "grpo+group_center+group_variance+seq_sum-kl",
    paper="arXiv:2504.19599",
    summary="a regression of each response's change of log-prob on its advantage, within the group",
    contribution=("group_variance", "seq_sum"),
    essence=("group_variance",),
)
"""GVPO: group variance policy optimisation (Zhang et al., arXiv:2504.19599, as its authors' verl recipe has it).

    L = mean over prompts of  1/(2 (k - 1)) sum_i [ (s_i - mean_group s) - (R_i - mean_group R) ]^2
    s_i = beta sum_t log pi/pi_old of response i,   k responses per prompt

A regression: how much likelier a response has become, against its group, is to be how much better it is. At its least
the policy is pi_old exp(R / beta) up to a factor, so that rollouts may be older, and no ratio or clip is needed. The
sums are settled over whole groups before the update, whatever micro-batches cut; the gradient is exact. Weights may not
be added.
Open: beta; the code's 0.1 here.
Deviations: the code divides by micro-batches, not prompts, a constant factor; log-ratios are clamped to [-20, 20];
where a filter drops responses, means are those of what is left, not differentiated, and so is a prompt's weight.
"""


@register
class PopulationNorm(Advantage):
    """Reward minus the group's mean, over the group's standard deviation (ddof 0).

    TPO's score of a response (Kaddour, arXiv:2604.06159, appendix A).

        A_i = (R_i - mean_group) / std_group,   std with ddof 0

    group_norm divides by the deviation with ddof 1, which is larger by sqrt(G / (G - 1)), and adds 1e-6 to it. A reward
    equal to its group's mean up to rounding has an advantage of exactly zero.
    """

    paper = "arXiv:2604.06159"
    minimum_group = 2
    printed = "A = (R - mean) / std over the group, ddof 0"

    def advantage(self, reward: Tensor, group: Tensor) -> Tensor:
        index, groups = group_index(group)
        centred = group_centred(reward, index, groups)
        return torch.where(centred == 0, 0.0, centred / group_mean(centred.square(), index, groups).sqrt()[index])


@register
class TargetMatch(Surrogate):
    """Fits the probabilities of a group's responses to the old ones, tilted by the advantage.

    TPO's loss: the group's probabilities are fitted to a target (Kaddour, arXiv:2604.06159).

        P = softmax over the group of sum_t log pi(y_it),   q = softmax of sum_t log pi_old(y_it) + A_i / eta

    The gradient of a response is q_i - P_i. Where the two are close, q - P comes from their logarithms.
    """

    failure_modes = ("hard_problems", "many_epochs")
    follows_advantage = False
    reads_ratio = False
    reads = frozenset({"group", "logp_old"})
    reads_once_moved = frozenset({"logp"})
    printed = "k (q - sg[P]) log p"
    explained = (
        "P = softmax over the group of the sum over a response of log p, q that of log p_old and A / {eta:g}, k "
        "responses"
    )
    eta: float = parameter(1.0, "(0, inf)", "temperature of the advantage in the target")

    def extra(self, batch: Prepared) -> Extra:
        index, groups = group_index(batch.require("group", self.name))
        tokens, there = batch.mask.sum(1), batch.mask.any(1)
        old = (batch.require("logp_old", self.name) * batch.mask).double().sum(1)
        logp = old if batch.on_policy else (batch.require("logp", self.name) * batch.mask).double().sum(1)
        wanted = old + batch.advantage.double().sum(1) / tokens.clamp(min=1) / self.eta
        log_p, log_q = (group_log_softmax(score, there, index, groups) for score in (logp, wanted))
        size = group_sum(there.double(), index, groups)[index]
        slope = size * _difference(log_q, log_p, wanted - logp, index, groups)
        cross = group_sum((log_q.exp() * log_p).where(there, 0.0), index, groups)[index]
        terms = {"slope": slope, "value": -cross / tokens.clamp(min=1)}
        return {name: values.where(there, 0.0).to(batch.advantage) for name, values in terms.items()}

    def loss(self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Extra) -> Tensor:
        return settled(extra, logp)


def _difference(log_q: Tensor, log_p: Tensor, change: Tensor, index: Tensor, groups: int) -> Tensor:
    """[N] q - p of softmaxes over groups whose scores differ by `change` [N]; 0 where all of a group's are equal.

    log q - log p = change - log(mean of exp(change) under p), each change less that of the likeliest row of its group.
    """
    highest = log_p.new_zeros(groups).scatter_reduce(0, index, log_p, "amax", include_self=False)
    likeliest = (log_p == highest[index]) & log_p.isfinite()
    change = (
        change - (group_sum(change * likeliest, index, groups) / group_sum(likeliest.double(), index, groups))[index]
    )
    p = log_p.exp()
    excess = torch.where(change > 1, (log_p + change).exp() - p, p * change.clamp(max=1).expm1())
    apart = change - group_sum(excess.where(p > 0, 0.0), index, groups).log1p()[index]
    return torch.where(apart.abs() < 1, p * apart.clamp(-1, 1).expm1(), log_q.exp() - p)


recipe(
    "tpo",
    "grpo+population_norm+target_match+seq_sum-kl",
    paper="arXiv:2604.06159",
    summary="the group's probabilities fitted to the old ones tilted by the rewards",
    contribution=("target_match", "seq_sum"),
    essence=("target_match",),
)
"""TPO: target policy optimisation (Kaddour, arXiv:2604.06159, eq. 1-3 and appendix A).

    L = mean over prompts of  -sum_i q_i log P_i,   P = softmax over the group of sum_t log pi(y_it)
    q_i = P_old,i exp(u_i / eta) / sum,   u_i = (R_i - mean_group) / std_group with ddof 0, 0 where all R are equal

The group's probabilities are fitted to a target fixed with the rollouts: a response has the gradient q_i - P_i,
which vanishes once the target is met, so that several passes do no harm (epochs); equal rewards hold it at P_old. P is
settled over whole groups before the update, whatever micro-batches cut; the gradient is exact, and the equation prints
the form that shows it. Of long responses one has nearly all of P, and the others learn little. Weights are refused.
Open: the denominator of their language models, whose code is not public. Left out: kl(beta=0.001), theirs on GSM8K.
Deviations: their code takes R - mean itself where the deviation is below 1e-6; a prompt with
more responses weighs more, in their code all have the same number.
Sums are over the policy's tokens.
"""
