"""What the responses of a group teach: right and wrong answers weighed, selected, and rewarded together."""

import math

from objectives.batch import TokenBatch
from objectives.ops import (
    Tensor,
    group_centred,
    group_deviation,
    group_index,
    group_is_constant,
    group_mean,
    group_sum,
    quantile,
    torch,
)
from objectives.part import Advantage, Select, parameter
from objectives.parts.advantages import GroupNorm
from objectives.recipes import recipe
from objectives.zoo import register


@register
class Agpo(GroupNorm):
    """GRPO's advantage, but 1 for groups that are right as a whole, -1 for those that are wrong."""

    failure_modes = ("dead_groups", "zero_loss")
    reads = frozenset({"reward", "group", "correct"})
    centred = False
    learns_from_equal_groups = True

    def of(self, batch: TokenBatch) -> Tensor:
        advantage, reward = super().of(batch), batch.require("reward", self.name)
        index, groups = group_index(batch.require("group", self.name))
        success = group_mean(batch.require("correct", self.name).to(reward), index, groups)[index]
        equal = group_is_constant(reward, index, groups)
        whole = torch.where(success == 1, 1.0, torch.where(success == 0, -1.0, 0.0)).to(reward)
        return torch.where(equal, whole, advantage)

    def formula(self) -> str:
        return f"{super().formula()}, but 1 or -1 where all are right or wrong and earn the same"


recipe(
    "agpo",
    "grpo+agpo",
    paper="arXiv:2503.15952",
    summary="GRPO in which groups that are right or wrong as a whole have a gradient as well",
)
"""AGPO: adaptive group policy optimisation, version 1 (Li et al., arXiv:2503.15952).

    A_i = 1 where all responses of the group are right and their rewards equal, -1 where all are wrong and they are;
    (R_i - mean_group) / std_group in all other groups

Groups that teach GRPO nothing count as wholes. dynamic_sampling takes that away again. Left out: version 1's length
reward, and the loss mask and clip that later versions have instead, whose equations are not known here.
Another AGPO (arXiv:2605.20722) adapts clip and temperature and is not this.
"""


@register
class MeanNorm(Advantage):
    """Correctness minus the group's mean, over that mean."""

    failure_modes = ("hard_problems", "diversity")
    reads = frozenset({"correct", "group"})
    minimum_group = 2
    printed = "A = (c - mean) / (mean + {eps:g}) over the group, c correctness"
    eps: float = parameter(1e-6, "[0, inf)", "added to the mean")

    def of(self, batch: TokenBatch) -> Tensor:
        return self.advantage(batch.require("correct", self.name), batch.require("group", self.name))

    def advantage(self, reward: Tensor, group: Tensor) -> Tensor:
        index, groups = group_index(group)
        mean = group_mean(reward, index, groups)[index]
        return torch.where(mean > 0, group_centred(reward, index, groups) / (mean + self.eps), 0.0)


recipe(
    "maxrl",
    "grpo+mean_norm+token_mean-kl",
    paper="arXiv:2602.02710",
    summary="correctness over the group's success, so that the likelihood of being right is maximised",
    contribution=("mean_norm",),
)
"""MaxRL: maximum-likelihood reinforcement learning (Tajwar et al., arXiv:2602.02710).

    A_i = (c_i - mean_group) / (mean_group + 1e-6),  0 where no response is right;  clip(0.2), mean over all tokens

c is correctness: in expectation the gradient of log mean, not of the mean, so that hard prompts weigh more. Clip and
denominator are those of the authors' runs, one update per rollout. Deviations: correctness stands for the reward, which
must not be negative here; so nothing that shapes rewards goes with it (soft_overlong, kl_reward).
"""


@register
class PassAtK(Advantage):
    """Advantage of each response where k of them are right if one is."""

    failure_modes = ("diversity", "hard_problems", "exploration")
    reads = frozenset({"correct", "group"})
    minimum_group = 2
    printed = "A = mean over the group's sets of {k} of (pass@{k} - rho) / (sqrt(rho (1 - rho)) + 1e-6)"
    k: int = parameter(4, "[1, inf)", "responses that are rewarded together; the group's size if that is smaller")

    @property
    def learning_group(self) -> int:
        return self.k + 1

    def of(self, batch: TokenBatch) -> Tensor:
        right, values = batch.right(self.name), batch.require("correct", self.name)
        index, groups = group_index(batch.require("group", self.name))
        sizes = group_sum(torch.ones_like(index), index, groups).tolist()
        counts = group_sum(right.to(index), index, groups).tolist()
        of_group = values.new_tensor([self._of_group(n, c) for n, c in zip(sizes, counts, strict=True)]).reshape(-1, 2)
        return torch.where(right, of_group[index, 0], of_group[index, 1])

    def _of_group(self, n: int, c: int) -> tuple[float, float]:
        """The advantages of the right and of the wrong ones, where c of n are right."""
        k = min(self.k, n)
        failure = math.comb(n - c, k) / math.comb(n, k)
        deviation = math.sqrt(failure * (1 - failure)) + 1e-6
        with_wrong = math.comb(max(n - c - 1, 0), k - 1) / math.comb(n - 1, k - 1)
        return failure / deviation, (failure - with_wrong) / deviation if c < n else 0.0


recipe(
    "passk",
    "grpo+pass_at_k+token_mean-kl",
    paper="arXiv:2508.10751",
    summary="k responses are rewarded together if one of them is right",
    contribution=("pass_at_k",),
)
"""Pass@k training (Chen et al., arXiv:2508.10751): the reward of k responses together is that of their best.

    rho = 1 - C(n-c, k) / C(n, k),   sigma = sqrt(rho (1 - rho)),   c of the group's n responses right
    A = (1 - rho) / (sigma + 1e-6) of the right,  (1 - rho - C(n-c-1, k-1) / C(n-1, k-1)) / (sigma + 1e-6) of the wrong

The mean advantage over all sets of k responses, in closed form. A group with more than n - k right ones has none,
though dynamic_sampling keeps it. Open: k, 4 in xtuner, and what is around the advantage; here a clip at 0.2 and the
mean over all tokens. Deviations: right is what is correct in full, whatever the reward, so that nothing that shapes
rewards goes with it (soft_overlong, kl_reward); a group of fewer than k responses takes all of them together, and one
of k or fewer has no advantage at all.
"""


@register
class QuantileNorm(Advantage):
    """Reward minus a quantile of the group's, over the group's standard deviation (ddof 1)."""

    failure_modes = ("entropy_collapse", "entropy_explosion")
    minimum_group = 2
    q: float = parameter(0.4, "(0, 1)", "which quantile of the group's rewards is the baseline")
    kind: str = parameter("lower", ("lower", "linear"), "a reward that is there, or one interpolated")
    eps: float = parameter(1e-6, "[0, inf)", "added to the standard deviation")

    def advantage(self, reward: Tensor, group: Tensor) -> Tensor:
        index, groups = group_index(group)
        deviation = group_deviation(group_centred(reward, index, groups), index, groups)
        above = torch.zeros_like(reward)
        for number in range(groups):
            rows = index == number
            above[rows] = reward[rows] - self._baseline(reward[rows])
        return torch.where(above == 0, 0.0, above / (deviation + self.eps)[index])

    def _baseline(self, rewards: Tensor) -> Tensor:
        if self.kind == "linear":
            return quantile(rewards, self.q)
        return rewards.sort().values[max(math.ceil(round(self.q * len(rewards), 9)), 1) - 1]

    def formula(self) -> str:
        kind = " (linear)" if self.kind == "linear" else ""
        return f"A = (R - {self.q:g}-quantile{kind}) / (std + {self.eps:g}) over the group"


recipe(
    "qae",
    "dapo+quantile_norm-soft_overlong",
    linear="qae(kind=linear)",
    paper="arXiv:2509.22611",
    summary="a quantile of the group's rewards as baseline; hard prompts train on right answers alone",
)
"""QAE: quantile advantage estimation (Wu et al., arXiv:2509.22611).

    A_i = (R_i - Q_q of the group) / (std_group + 1e-6),   q = 0.4;   on DAPO: clip(0.8, 1.28), dynamic sampling

With binary rewards hard prompts train on right answers alone, easy ones on wrong ones: Q is 0 where the success is at
most 1 - q, else 1. The quantile is the smallest reward R with F(R) >= q; q is 0.6 where the entropy collapses. The
advantages of a group do not sum to zero.
Deviations: without soft_overlong, whose shaped rewards the quantile would pick.
Variant linear: interpolated, as the np.quantile in its README does; no code could be had.
"""


@register
class SignedReward(Advantage):
    """One advantage for right answers, one for wrong ones, and no baseline."""

    centred = False
    failure_modes = ("diversity",)
    learns_from_equal_groups = True
    reads = frozenset({"correct"})
    printed = "A = {right:g} where right, {wrong:g} where wrong"
    right: float = parameter(0.1, "[0, inf)", "advantage of right answers")
    wrong: float = parameter(-1.0, "(-inf, 0]", "advantage of wrong answers")

    def of(self, batch: TokenBatch) -> Tensor:
        values = torch.full_like(batch.require("correct", self.name), self.wrong)
        return values.masked_fill(batch.right(self.name), self.right)


recipe(
    "w_reinforce",
    "grpo+signed_reward+answer_filter(keep=all)+token_mean-kl",
    psr="w_reinforce(right=1,keep=right)",
    nsr="w_reinforce(keep=wrong)",
    authors="w_reinforce+token_mean(scope=microbatch)+entropy_bonus(coefficient=0.001)",
    psr_authors="w_reinforce(right=1,keep=right)+token_mean(scope=microbatch)+entropy_bonus(coefficient=0.001)",
    nsr_authors="w_reinforce(keep=wrong)+token_mean(scope=microbatch)+entropy_bonus(coefficient=0.001)",
    paper="arXiv:2506.01347",
    summary="wrong answers weigh ten times as much as right ones; no baseline",
    contribution=("signed_reward", "answer_filter"),
)
"""W-REINFORCE, PSR and NSR (Zhu et al., The Surprising Effectiveness of Negative Reinforcement, arXiv:2506.01347).

    A = 0.1 of right answers, -1 of wrong ones;  clip(0.2), mean over all tokens

Variants psr and nsr learn from right answers (A = 1), or from wrong ones, alone; the others leave the denominators too.
No baseline: groups of one kind train as well, which dynamic_sampling would take away. The paper writes plain REINFORCE,
its code runs PPO's clip. Variant authors: the mean is that of each micro-batch, and an entropy bonus of 0.001, their
configuration's default that no script overrides; psr_authors and nsr_authors likewise. Their return starts again behind
a tool's tokens, so that of a right answer only what comes after the last of them is raised: 16 of 20 batches that have
some differ, by 0.9 of the largest gradient for psr_authors, by 1 % for authors (median).
Deviations: right is what is correct in full, whatever the reward, so that nothing that shapes rewards goes with it.
"""


@register
class ExtremePairs(Select):
    """Trains on the best and the worst responses of a group, in equal numbers."""

    failure_modes = ("mixed_difficulty",)
    goes_by_reward = True
    reads = frozenset({"reward", "group", "random_key"})
    printed = "only {share:g} of the pairs of best and worst R in the group, ties at random"
    share: float = parameter(0.5, "(0, 1]", "share of the pairs that is trained on, rounded down")

    @property
    def learning_group(self) -> int:
        return 2 * int(1 / self.share + 1 - 1e-9)

    def selects(self, batch: TokenBatch) -> Tensor:
        reward, key = batch.require("reward", self.name), _key_of_row(batch)
        index, groups = group_index(batch.require("group", self.name))
        selected = torch.zeros_like(batch.mask[:, 0])
        for number in range(groups):
            rows = (index == number).nonzero()[:, 0]
            rows = rows[key[rows].argsort()]
            ranked = rows[reward[rows].argsort(descending=True, stable=True)]
            pairs = int(len(rows) // 2 * self.share + 1e-9)
            selected[ranked[:pairs]] = True
            selected[ranked[len(rows) - pairs :]] = True
        return selected


def _key_of_row(batch: TokenBatch) -> Tensor:
    """[N] the smallest random key of a response's tokens."""
    last = torch.iinfo(torch.int64).max
    key = batch.require("random_key", ExtremePairs.name).masked_fill(~batch.mask, last)
    return torch.cat([key, key.new_full((len(key), 1), last)], 1).amin(1)


recipe(
    "shuffle_r1",
    "grpo+extreme_pairs+token_mean-kl",
    authors="shuffle_r1+token_mean(scope=microbatch)",
    paper="arXiv:2508.05612",
    summary="the best and the worst of a group in equal numbers; the middle is left out",
    contribution=("extreme_pairs",),
)
"""Shuffle-R1's pairwise sampling (Zhu et al., arXiv:2508.05612, as xiaomi-research/shuffle-r1 has it).

    A_i = (R_i - mean_group) / (std_group + 1e-6)
    the responses of a group, sorted by A, make pairs: the best with the worst, the second with the last but one, ...
    the first half of the pairs is trained on

A group that is half right keeps right and wrong answers in equal numbers; of the middle, which teaches little, nothing
is left. The advantages are those of the whole group.
Deviations: ties are broken at random, by the order of the rows in their code (other responses in 31 of 40 random
batches); a middle one of an odd number is in no pair, their code refuses it. Left out: the reshuffle, which fills a
step's mini-batches with pairs drawn by |A_1| + |A_2|, eight times. A draw has some rows several times and others never,
but a row of a batch is there once, and no weight of its advantage would change the denominators with it.
Variant authors: token mean per micro-batch, weighted by its responses.
"""
