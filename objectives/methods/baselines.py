"""Policy gradients without a ratio, and what an advantage is measured against."""

from objectives.batch import Prepared, TokenBatch
from objectives.ops import Tensor, group_index, group_is_constant, group_is_there, group_sum, running_sum, torch
from objectives.part import Advantage, Weight, parameter
from objectives.parts.advantages import GroupCenter
from objectives.recipes import recipe
from objectives.zoo import register


@register
class RawReward(Advantage):
    """The reward as it is, without a baseline."""

    paper = "doi:10.1007/BF00992696"
    centred = False
    learns_from_equal_groups = True
    printed = "A = R"

    def advantage(self, reward: Tensor, group: Tensor) -> Tensor:
        return reward


recipe(
    "reinforce",
    "grpo+raw_reward+reinforce+seq_sum-kl",
    paper="doi:10.1007/BF00992696",
    summary="reward times the gradient of the response's log-prob; no baseline, no ratio",
    contribution=("reinforce",),
)
"""REINFORCE (Williams, Simple Statistical Gradient-Following Algorithms, Machine Learning 8, 1992).

    J = (1/N) sum_i R_i sum_t log pi(y_it)

No baseline, no ratio, no clip; right for one update per rollout only. Groups of equal rewards train too, which
dynamic_sampling would take away. Added to another objective it brings the surrogate and leaves the advantage.
OpenRLHF's estimator of that name is reinforce_pp's advantage.
"""


recipe(
    "rloo",
    "grpo+kl_reward(beta=0.03)+leave_one_out+unclipped+seq_sum-kl",
    trl="rloo+kl_reward(beta=0.05)+sequence_ratio(norm=sum)+clip",
    paper="arXiv:2402.14740",
    summary="the other responses' mean is the baseline; whole responses, divergence in the reward",
    contribution=("kl_reward", "leave_one_out", "seq_sum"),
    essence=("leave_one_out",),
)
"""RLOO: REINFORCE leave-one-out (Ahmadian et al., Back to Basics, arXiv:2402.14740).

    J = (1/N) sum_i sum_t r_it A_i,   A_i = R_i - mean_{j != i} R_j,   R_i = reward_i - beta log pi_old(y_i)/pi_ref(y_i)

The whole response is one action: its tokens' terms are summed, not averaged. beta is 0.03 for TL;DR, 0.10 for HH.
Deviations: the paper updates once per rollout, where r = 1; here r keeps later updates right, without a clip.
Variant trl (RLOOTrainer): one ratio for the response, the product of its tokens', clipped at 0.2; beta = 0.05. Its loss
is the same in every gradient and larger in value by the response's length. verl's rloo is the advantage alone, which
`leave_one_out` adds to any other objective. Added to one with a kl penalty, -kl leaves that penalty out.
"""


@register
class OptimalTokenBaseline(GroupCenter):
    """Reward minus the group's mean at each token, weighed by the squared gradients of the log-probs up to there.

    OTB's advantage (Li et al., arXiv:2602.07078): a baseline for each token.

    A_it = R_i - sum_j W_jt R_j / sum_j W_jt,   W_it = sum_{s <= t} ( 1 - 2 pi_old(y_is) + sum_v pi_old(v)^2 )

    A reward equal to its baseline up to rounding has an advantage of exactly zero.
    """

    failure_modes = ("few_responses", "credit")
    reads = frozenset({"reward", "group", "logp_old", "sum_pi_squared_old"})
    explained = "W = sum up to the token of 1 - 2 p_old + sum of p_old^2"
    alone: str = parameter("baseline", ("baseline", "reward"), "what a token has that no other response has: 0, or R")

    @property
    def centred(self) -> bool:
        return self.alone == "baseline"

    def of(self, batch: TokenBatch) -> Tensor:
        centred, mask = super().of(batch), batch.mask
        index, groups = group_index(batch.require("group", self.name))
        chance = batch.require("logp_old", self.name).double().exp()
        step = (1 - 2 * chance + batch.require("sum_pi_squared_old", self.name)).clamp(min=0)
        energy = running_sum(step * mask, 1) * mask
        place = index[:, None] * mask.shape[1] + (mask.cumsum(1) - 1).clamp(min=0)  # tokens of a group and a number

        def over_group(values: Tensor) -> Tensor:
            return energy.new_zeros(groups * mask.shape[1]).index_add(0, place.flatten(), values.flatten())[place]

        total = over_group(energy)
        baseline = over_group(energy * centred[:, None]) / total.clamp(min=torch.finfo(total.dtype).tiny)
        advantage = centred[:, None] - baseline
        rounding = 32 * torch.finfo(total.dtype).eps * centred.abs()[:, None]
        advantage = advantage.where(advantage.abs() > rounding, 0.0)
        lonely = over_group(mask.double()) == 1
        rest = batch.require("reward", self.name)[:, None] if self.alone == "reward" else 0.0 * centred[:, None]
        return torch.where(mask, torch.where(lonely, rest, advantage), 0.0).to(centred)

    def formula(self) -> str:
        alone = "0" if self.centred else "R"
        return f"A = R - sum W R / sum W over the group's t-th tokens, {alone} where it has one"


@register
class OptimalBaseline(GroupCenter):
    """Reward minus the group's mean weighed by length; exactly zero where all rewards of the group are equal."""

    failure_modes = ("few_responses",)
    printed = "A = R - sum |y| R / sum |y| over the group"

    def of(self, batch: TokenBatch) -> Tensor:
        centred = super().of(batch)
        index, groups = group_index(batch.require("group", self.name))
        length = batch.mask.sum(1).to(centred)
        baseline = group_sum(length * centred, index, groups) / group_sum(length, index, groups).clamp(min=1)
        return centred - baseline[index]


recipe(
    "opo",
    "reinforce+optimal_baseline",
    verl="grpo+optimal_baseline+dual_clip+token_mean-kl",
    paper="arXiv:2505.23585",
    summary="plain policy gradient with the baseline of least variance, a mean weighed by length",
)
"""OPO: on-policy RL with the optimal reward baseline (Hao et al., arXiv:2505.23585).

    J = (1/N) sum_i sum_t A_i log pi(y_it),   A_i = R_i - b,   b = sum_j |y_j| R_j / sum_j |y_j| over the group

The baseline of least variance if a response's squared gradient grows with its length. No deviation, no KL, no entropy
bonus, no ratio: exactly on-policy, one update per rollout. |y| are the tokens that the loss sees.
Open: the denominator; the baseline is that of a sum over tokens, which is taken here.
Variant verl: the advantage in its PPO loss, clip(0.2) and dual_clip(cap=3), mean over all tokens.
"""


recipe(
    "otb",
    "reinforce+optimal_token_baseline",
    verl="grpo+optimal_token_baseline(alone=reward)+dual_clip+token_mean-kl",
    paper="arXiv:2602.07078",
    summary="a baseline for each token, weighed by how large the gradients up to there are",
)
"""OTB: the optimal token baseline (Li et al., arXiv:2602.07078, as their page in verl's documentation has it).

    A_it = R_i - B_t,   B_t = sum_j W_jt R_j / sum_j W_jt   over the group's responses that have a token t
    W_it = sum_{s <= t} ( 1 - 2 pi_old(y_is) + sum_v pi_old(v)^2 )

The baseline of least variance: W is the squared gradient of the log-prob so far by the logits. One response alone has
no advantage behind the end of the others. Responses are compared by the tokens that the loss sees.
Open: what is around the advantage; here a plain policy gradient, the sum over tokens, for which it is derived.
Deviations: rewards are centred first, so that equal ones have an advantage of exactly zero; the code's 1e-8 below the
line is left out, and where the sum of W is 0, as after sure tokens alone, the baseline is the group's mean.
Variant verl: one response alone keeps its reward (its handle_zero_tail); its PPO loss, clip(0.2) and dual_clip(cap=3),
mean over all tokens. Its code adds tools' tokens to W: all of 20 batches that have some differ, by 0.7 of the largest
gradient (median). Left out: the squares of sampler_correction's weights, which multiply W.
"""


@register
class ScaledCenter(GroupCenter):
    """Reward minus the group's mean, over the share of the batch's responses that have something to learn from."""

    failure_modes = ("dead_groups", "zero_loss")
    eps: float = parameter(0.0, "[0, inf)", "added to the share")
    counts: str = parameter("differing", ("differing", "rewarded"), "rows in groups that differ, or with a reward")

    def of(self, batch: TokenBatch) -> Tensor:
        centred, reward = super().of(batch), batch.require("reward", self.name)
        index, groups = group_index(batch.require("group", self.name))
        there = group_is_there(batch.mask, index, groups)
        counted = reward != 0 if self.counts == "rewarded" else ~group_is_constant(reward, index, groups)
        share = (there & counted).sum().clamp(min=1).to(reward) / there.sum().clamp(min=1)
        return centred / (share + self.eps)

    def formula(self) -> str:
        what = {"differing": "in groups whose rewards differ", "rewarded": "whose reward is not 0"}[self.counts]
        return f"A = (R - mean over the group) / (share of responses {what}{f' + {self.eps:g}' if self.eps else ''})"


recipe(
    "gpg",
    "grpo+scaled_center+reinforce+token_mean-kl",
    authors="gpg",
    verl="gpg(counts=rewarded)",
    paper="arXiv:2504.02546",
    summary="plain policy gradient of centred rewards, scaled up for the groups that teach nothing",
    contribution=("scaled_center", "reinforce"),
)
"""GPG: group policy gradient (Chu et al., arXiv:2504.02546).

    J = 1 / sum_i |y_i|  sum_i sum_t A_i log pi(y_it),   A_i = B / (B - M) (R_i - mean_group)          (eq. 5)

M of the B responses of a step are in groups of equal rewards; what is left is scaled up for them. No ratio, no clip, no
deviation: right for one update per rollout only. With dynamic_sampling the factor is 1.
Deviations: the authors sample again until a share of the groups (0.4 to 0.6) has rewards that differ.
Variant authors (open-r1's trainer): the same. Variant verl: the share is that of the rewards that are not zero, whether
their groups differ or not.
"""


@register
class Delight(Weight):
    """Weighs a token by how welcome a surprise it is."""

    failure_modes = ("exploration",)
    reads = frozenset({"logp"})
    planned = True
    printed = "A *= sigmoid(-A log p / {eta:g})"
    eta: float = parameter(1.0, "(0, inf)", "temperature of the sigmoid")

    def weight(self, batch: Prepared) -> Tensor:
        surprisal = -batch.require("logp", self.name)
        return torch.sigmoid(batch.advantage * surprisal / self.eta)


recipe(
    "dg",
    "reinforce+group_center+delight",
    paper="arXiv:2603.14608",
    summary="policy gradient weighed by how welcome a surprise each token is",
    contribution=("delight",),
)
"""DG: the delightful policy gradient (arXiv:2603.14608, as JeanKaddour/tpo has it).

    J = (1/N) sum_i sum_t w_it A_i log pi(y_it),   w_it = sigmoid( A_i (-log pi(y_it)) / eta ),   A_i = R_i - mean_group

A rare token counts fully where it was right and hardly at all where it was wrong; a sure one counts half. w is not
differentiated and reads the policy as it is now. No ratio, no clip: right for one update per rollout (several diverge,
says the code). Open: the baseline; theirs is the mean over the candidates of a prompt.
"""


recipe(
    "reinforce_pp",
    "grpo+kl_reward(beta=0.001,to_go=true)+global_norm-kl",
    authors="grpo+kl_reward(beta=0.01,to_go=true)+global_norm+token_mean-kl",
    paper="arXiv:2501.03262",
    summary="no group baseline: reward less the KL to come, normalised over the batch",
    essence=("global_norm",),
)
"""REINFORCE++ (Hu et al., arXiv:2501.03262): PPO's surrogate without a critic, normalised over the whole batch.

    A_it = R_i - beta sum_{s >= t} k1_is,  then (A - mean_batch) / std_batch;   clip(0.2), mean per response

Variant authors (OpenRLHF): mean over all tokens; beta = 0.01 in the reward.
Without group centring all responses to an easy prompt gain probability and all to a hard one lose it; dynamic_sampling
ends that. Added to an objective with a kl penalty, it takes the divergence off the reward as well; -kl leaves that
penalty out.
"""


recipe(
    "reinforce_pp_baseline",
    "grpo+center_then_global_norm+kl(beta=1e-5,estimator=k2)",
    authors="reinforce_pp_baseline(over=tokens)+token_mean",
    paper="arXiv:2501.03262",
    summary="group means taken off, then normalised over the batch; KL to the reference",
    contribution=("center_then_global_norm",),
)
"""REINFORCE++ with a group baseline (Hu et al., arXiv:2501.03262, eq. 8 and appendix A).

    A_i = (R_i - mean_group) / std_batch;   clip(0.2), mean per response;   + beta k2 in the loss, beta = 1e-5

beta is that of OpenRLHF's script. Over what the deviation runs is open; over rows equal groups keep an advantage of
zero. Variant authors (OpenRLHF): mean over all tokens, and the deviation over tokens.
Left out: IcePop and a filter of groups, which OpenRLHF's script turns on; +icepop+dynamic_sampling adds them.
Deviations: OpenRLHF bounds each k2 to 10, which takes a gradient of 1e-5 |log pi/pi_ref| where that is above 4.5; here
kl(clamp=...) does so.
"""
