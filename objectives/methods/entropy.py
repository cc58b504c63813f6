"""Methods that are meant to hold the entropy of the policy up."""

import math
from collections.abc import Iterator, Mapping

from objectives.batch import Prepared, TokenBatch, over_scope, scope_reads, statistic
from objectives.errors import ObjectiveError
from objectives.ops import Tensor, centred, group_index, group_sum, largest, random_subset, torch
from objectives.part import REQUIRED, Aggregate, Mask, Part, Penalty, Weight, parameter
from objectives.parts.losses import EntropyBonus
from objectives.recipes import recipe
from objectives.zoo import register


@register
class ClipCov(Mask):
    """Masks tokens drawn among those whose log-prob and advantage vary together.

    Clip-Cov's mask (Cui et al., arXiv:2505.22617): a few tokens of large covariance are masked, drawn at random.

    Cov_t = (log pi(y_t) - mean log pi) (A_t - mean A)        means over the response tokens of the mini-batch

    Tokens that the surrogate clips already take no part in the draw.
    """

    failure_modes = ("entropy_collapse",)
    reads = frozenset({"logp", "random_key"})
    fraction: float = parameter(2e-4, "(0, 1]", "rho, share of the tokens that is masked")
    low: float = parameter(1.0, "(-inf, inf)", "covariance above which a token may be drawn")
    high: float = parameter(5.0, "(-inf, inf)", "covariance below which a token may be drawn")
    scope: str = parameter("minibatch", ("minibatch", "microbatch"), "where means and share are taken")
    shrinks_denominator = False
    spares_clipped = True

    def notices(self, parts: Mapping[str, Part]) -> Iterator[str]:
        yield from super().notices(parts)
        if self.low >= self.high:
            yield f"{self.name}: masks nothing, as low={self.low:g} is not below high={self.high:g}. Lower it."

    def keeps(self, batch: Prepared) -> Tensor:
        cov = covariance(batch, self.name)
        count = max(1, int(self.fraction * int(batch.mask.sum()) + 1e-9))
        among = batch.mask & ~batch.require("clipped", self.name) & (cov > self.low) & (cov < self.high)
        return batch.mask & ~random_subset(batch.require("random_key", self.name), among, count)

    def formula(self) -> str:
        scope = " of each micro-batch" if self.scope == "microbatch" else ""
        where = f"{self.low:g} < Cov(log p, A) < {self.high:g} and the clip is idle"
        return f"not {self.fraction:g} of the tokens{scope}, drawn where {where}"


def covariance(batch: Prepared, reader: str) -> Tensor:
    """[N, T] float32: Cov as `ClipCov` has it, where the mask is.

    Calculated in float64 and then rounded, so that values that differ by rounding errors alone are ties.
    """
    weight = batch.mask.double()
    logp, advantage = (centred(batch.require(name, reader).double(), weight) for name in ("logp", "advantage"))
    return (logp * advantage * weight).float()


recipe(
    "clip_cov",
    "grpo+dynamic_sampling+clip_cov+token_mean-kl",
    authors="clip_cov(scope=microbatch)+clip(low=1)+token_mean(scope=microbatch)",
    paper="arXiv:2505.22617",
    summary="a few tokens whose log-prob and advantage vary together are masked",
    contribution=("clip_cov",),
)
"""Clip-Cov (Cui et al., The Entropy Mechanism of RL for Reasoning, arXiv:2505.22617).

    Cov_t = (log pi(y_t) - mean log pi) (A_t - mean A)        means over the response tokens of the mini-batch
    rho N tokens, drawn among those with low < Cov < high that the clip spares, have no gradient; the denominator stays

Deviations: at least one token is masked where any may be; tokens are drawn by a number made of the step, their group,
row and position, so that neither the order of groups nor processes and cuts have a say.
Open: PPO's clip beside it, 0.2 here.
Variant authors: means, share and token mean per micro-batch, ratios clipped to [0, 2]. Their draw is
another one: 63 of 1925 tokens of 40 random batches are masked there or here alone; with fraction=1 none.
"""


@register
class CovPenalty(Penalty):
    """Holds the tokens of largest covariance near the policy of the rollouts.

    KL-Cov's penalty (Cui et al., arXiv:2505.22617): the tokens of largest covariance are held near the old policy.
    """

    acts_on_policy = False
    failure_modes = ("entropy_collapse",)
    reads = frozenset({"logp", "logp_old"})
    chooses = True
    fraction: float = parameter(2e-3, "(0, 1]", "k, share of the tokens that bears the penalty")
    beta: float = parameter(1.0, "[0, inf)", "weight of the penalty in the loss", idle=0)
    scope: str = parameter("minibatch", ("minibatch", "microbatch"), "where means and share are taken")

    def coefficients(self, batch: Prepared, aggregate: Aggregate) -> Tensor:
        chosen = over_scope(batch, self.scope, self._chosen)
        return torch.where(chosen, aggregate.coefficients(batch, batch.mask), 0.0)

    def _chosen(self, batch: Prepared) -> Tensor:
        count = max(1, int(self.fraction * int(batch.mask.sum()) + 1e-9))
        cov = covariance(batch, self.name)
        return largest(cov, batch.mask & (cov > 0), count)

    def penalty(self, rows: Prepared, logp: Tensor, entropy: Tensor | None) -> Tensor:
        anchor = logp.detach() if rows.on_policy else rows.require("logp_old", self.name)
        return self.beta * (logp - anchor).abs()

    def formula(self) -> str:
        where = " of each micro-batch" if self.scope == "microbatch" else ""
        chosen = f"the {self.fraction:g} of the tokens{where} with the largest Cov(log p, A)"
        return f"+ {self.beta:g} |log p/p_old| on {chosen}"


recipe(
    "kl_cov",
    "grpo+dynamic_sampling+cov_penalty+unclipped+token_mean-kl",
    authors="kl_cov(scope=microbatch)+token_mean(scope=microbatch)",
    paper="arXiv:2505.22617",
    summary="the tokens that would cost most entropy are held near the old policy; no clip",
    contribution=("cov_penalty", "unclipped"),
)
"""KL-Cov (Cui et al., The Entropy Mechanism of RL for Reasoning, arXiv:2505.22617).

    Cov_t = (log pi(y_t) - mean log pi) (A_t - mean A)        means over the response tokens of the mini-batch
    l_t = -r A, and + beta |log pi - log pi_old| on the k N tokens of largest Cov; no clip

Deviations: at least one token bears the penalty (as in the code); ties at the boundary all do; no token does whose Cov
is not positive, as where all advantages are equal.
While the policy has not moved the penalty has no gradient. k is 2e-3 for 7B models, 2e-4 for 32B.
Variant authors: means, share and token mean per micro-batch. Their code penalises a token of every micro-batch, also
where no Cov is positive: 11 of 1925 tokens of 40 random batches, by up to the largest gradient.
"""


@register
class SurprisalReweighting(Weight):
    """Amplifies the most surprising tokens of good responses while the entropy is below its target.

    STARE's weights by surprisal, gated by the entropy (arXiv:2606.19236).
    """

    failure_modes = ("entropy_collapse", "exploration")
    goes_by_reward = True
    amplify: float = parameter(1.1, "[1, inf)", "W, weight of the most surprising tokens with A > 0", idle=1)
    attenuate: float = parameter(1.0, "(0, 1]", "M, weight of the most surprising tokens with A < 0", idle=1)
    fraction: float = parameter(0.1, "[0, 1]", "P, share of the tokens of each sign that is weighed")
    target_entropy: float | None = parameter(0.3, "(0, inf)", "H_target in nats; none: the weights are always on")
    adaptive: bool = parameter(False, None, "whether the weights follow the distance to the target")
    scope: str = parameter("batch", ("batch", "microbatch"), "where the share is taken")
    source: str = parameter("old", ("old", "current"), "whose surprisal: the rollouts' or the current policy's")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.adaptive and self.target_entropy is None:
            raise ObjectiveError(f"{self.name}: adaptive=true follows target_entropy, which is none")

    @property
    def needs(self) -> frozenset[str]:
        gate = frozenset({"entropy_old"} if self.target_entropy is not None else ())
        return gate | {statistic("logp", self.source)} | scope_reads(self.scope)

    @property
    def _always_on(self) -> dict[str, float]:
        return {"on": 1.0, "amplify": self.amplify, "attenuate": self.attenuate}

    def control(self, batch: TokenBatch, state: Mapping[str, float]) -> Mapping[str, float]:
        if self.target_entropy is None:
            return {}
        last = {**self._always_on, **state}
        entropy = batch.mean("entropy_old", self.name)
        if not math.isfinite(entropy):
            return last
        step = 0.01 * ((self.target_entropy > entropy) - (self.target_entropy < entropy)) if self.adaptive else 0.0
        if step and self.amplify > 1:
            last["amplify"] = min(max(last["amplify"] + step, 1.0), 1.5)
        if step and self.attenuate < 1:
            last["attenuate"] = min(max(last["attenuate"] - step, 0.5), 1.0)
        return {**last, "on": float(entropy < self.target_entropy)}

    def weight(self, batch: Prepared) -> Tensor:
        advantage = batch.advantage
        state = self._always_on if self.target_entropy is None else batch.state_of(self.name)
        surprisal = -batch.require(statistic("logp", self.source), self.name)
        weight = torch.ones_like(advantage)
        if state["on"]:
            weight[self._most_surprising(surprisal, batch.mask & (advantage > 0))] = state["amplify"]
            weight[self._most_surprising(surprisal, batch.mask & (advantage < 0))] = state["attenuate"]
        return weight

    def _most_surprising(self, surprisal: Tensor, candidates: Tensor) -> Tensor:
        share = math.ceil(int(candidates.sum()) * self.fraction - 1e-9)
        return largest(surprisal, candidates, max(1, share) if self.fraction else 0)

    def formula(self) -> str:
        gate = "" if self.target_entropy is None else f" while the mean of H_old < {self.target_entropy:g}"
        moved = ", each moved towards the target by 0.01 a step" if self.adaptive else ""
        low = f", {self.attenuate:g} where A < 0" if self.attenuate < 1 else ""
        p = "p" if self.source == "current" else "p_old"
        where = " of each micro-batch" if self.scope == "microbatch" else ""
        least = f"the {self.fraction:.0%} of the tokens{where} with the least {p}"
        return f"A *= {self.amplify:g} on {least} where A > 0{low}{gate}{moved}"


recipe(
    "stare",
    "dapo+surprisal_reweighting-soft_overlong",
    c2="stare(attenuate=0.9)",
    authors="stare(scope=microbatch,source=current)+dual_clip(cap=10)+token_mean(scope=microbatch)",
    paper="arXiv:2606.19236",
    summary="the most surprising tokens amplified while the entropy is below its target",
)
"""STARE (arXiv:2606.19236): surprisal-quantile weights, gated by a target entropy.

    L+ = the ceil(P n) most surprising tokens among those with A > 0, weight W
    L- = likewise among those with A < 0, weight M
    both on while the step's mean old entropy is below H_target (strict)

This is variant O1 of the paper (M = 1); attenuate=0.9 is its C2.
Adaptive mode: W <- clip(W + 0.01 sgn(H_target - H), 1, 1.5), M <- clip(M - 0.01 sgn(H_target - H), 0.5, 1); a weight
that starts at 1 stays off.
Deviations: tokens whose advantage is 0 are in neither set (with source=current or scope=microbatch as weights that are
settled with the rollouts have made it, otherwise without weights); ties at the boundary are all taken, so that the
order of rows has no influence; equal prefixes tie, so that small batches take more than the share. Theirs takes any of
the tied: with log-probs in quarters 5 of 40 random batches differ, by 3 % of the largest gradient (median), otherwise
none. A truncated response earns nothing; the authors grade its text (here task.grade_truncated=true).
Variant authors (their verl): surprisal of the current policy within each micro-batch; dual_clip(cap=10); token mean per
micro-batch. The paper's set is the whole batch; the old policy's surprisal gives it without another forward.
"""


@register
class EntropyAdvantage(Weight):
    """Adds a token's entropy to its advantage, up to a part of it."""

    failure_modes = ("exploration", "entropy_collapse")
    additive = True
    shares_advantage = True
    reads = frozenset({"entropy:source"})
    alpha: float = parameter(0.4, "[0, inf)", "weight of the entropy in nats", idle=0)
    kappa: float = parameter(2.0, "(1, inf)", "at most this part of the advantage's size is added: 1 / kappa")
    source: str = parameter("current", ("current", "old"), "whose entropy: the current policy's or the rollouts'")

    @property
    def goes_by_reward(self) -> bool:
        return not self.planned

    def weight(self, batch: TokenBatch) -> Tensor:
        entropy = batch.require(statistic("entropy", self.source), self.name)
        return torch.minimum(self.alpha * entropy, batch.require("advantage", self.name).abs() / self.kappa)

    def formula(self) -> str:
        entropy = "H" if self.source == "current" else "H_old"
        return f"A += min({self.alpha:g} {entropy}, |A| / {self.kappa:g})"


recipe(
    "entropy_advantage",
    "justrl+entropy_advantage",
    paper="arXiv:2506.14758",
    summary="tokens of high entropy gain advantage, without a change of sign",
)
"""Entropy advantage (Cheng et al., Reasoning with Exploration: An Entropy Perspective, arXiv:2506.14758).

    A'_it = A_i + min( alpha sg[H_it], |A_i| / kappa ),   alpha = 0.4, kappa = 2

Uncertain tokens gain: right ones count more, wrong ones less. As kappa > 1, no advantage changes its sign, and one
of zero stays zero. H is the current policy's; source=old takes the rollouts' and saves a forward. alpha is 0.1 for PPO.
On GRPO with clip-higher and the mean over all tokens.
Beside factors of the advantage: with source=current those that are settled with the rollouts (advantage_reweighting)
come before it; with source=old it is settled with the rollouts too, and summands are added before factors.
"""


@register
class AdaptiveEntropy(Penalty):
    """Adds the policy's entropy to the objective while it is below a target, with more weight the longer it is so.

    An entropy bonus whose weight follows a target entropy (Skywork-OR1, arXiv:2505.22312).

        L -= alpha_k mean of H_it,   alpha_k = c_k while e_k < target, 0 otherwise
        c_{k+1} = c_k + step where e_k < target, c_k - step elsewhere, within 0 .. most

    e_k is the mean entropy of the rollouts of step k, c_0 = start. measured=surprisal takes the mean of -log pi_old,
    which has the same expectation; delayed=true looks at e_{k-1} to switch the bonus on, as the authors' code does.
    """

    failure_modes = ("entropy_collapse",)
    needs_entropy_gradient = True
    purpose = EntropyBonus.purpose
    printed = "- alpha H"
    target_entropy: float = parameter(0.2, "(0, inf)", "entropy in nats below which the bonus is on")
    start: float = parameter(0.0, "[0, inf)", "c, weight of the entropy in the first step")
    step: float = parameter(1e-4, "[0, inf)", "by how much c moves per step")
    most: float = parameter(5e-3, "[0, inf)", "largest c")
    measured: str = parameter("entropy", ("entropy", "surprisal"), "what is compared with the target")
    delayed: bool = parameter(False, None, "whether the last step's entropy switches the bonus on")

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"entropy_old" if self.measured == "entropy" else "logp_old"})

    def control(self, batch: Prepared, state: Mapping[str, float]) -> Mapping[str, float]:
        weight, last = state.get("weight", self.start), state.get("entropy", -math.inf)
        if state:
            step = self.step if last < self.target_entropy else -self.step
            weight = min(max(weight + step, 0.0), self.most)
        entropy = self._entropy(batch)
        entropy = entropy if math.isfinite(entropy) else state.get("entropy", self.target_entropy)
        is_on = (last if self.delayed else entropy) < self.target_entropy
        return {"entropy": entropy, "weight": weight, "coefficient": weight * is_on}

    def _entropy(self, batch: Prepared) -> float:
        """The mean over the tokens of the rollouts; nan if there are none."""
        if self.measured == "entropy":
            return batch.mean("entropy_old", self.name)
        return -batch.mean("logp_old", self.name)

    def penalty(self, rows: Prepared, logp: Tensor, entropy: Tensor | None) -> Tensor:
        if entropy is None:
            raise ObjectiveError(f"{self.name}: the loss was called without the policy's entropy")
        return -rows.state_of(self.name)["coefficient"] * entropy

    def where(self) -> str:
        entropy = "H_old" if self.measured == "entropy" else "-log p_old"
        switch = " a step ago" if self.delayed else ""
        return (
            f"alpha = {self.start:g} while the mean of {entropy}{switch} < {self.target_entropy:g}, 0 otherwise, "
            f"the number moved by {self.step:g} a step, up while it was below, down above, within 0 .. {self.most:g}"
        )


recipe(
    "magic",
    "grpo+dynamic_sampling+adaptive_entropy+token_mean-kl",
    authors="magic(measured=surprisal,delayed=true)+token_mean(scope=microbatch)",
    paper="arXiv:2505.22312",
    summary="GRPO with an entropy bonus that is on while the entropy is below its target",
    contribution=("adaptive_entropy",),
    aliases=("skywork_or1",),
)
"""MAGIC, the recipe of Skywork-OR1 (He et al., arXiv:2505.22312): GRPO with an entropy that is held up.

    J = 1 / sum_i |y_i|  sum_i sum_t { min[ r A, clip(r, 0.8, 1.2) A ] + alpha_k H_it },   A z-scored per group
    alpha_k = c_k while the entropy e_k < 0.2, 0 otherwise;   c_0 = 0, c moves by 1e-4 a step, up while e_k < 0.2

No KL, one update per rollout, groups of equal rewards left out. The numbers are those of all six of their scripts, as
is the largest c, 0.005.
Deviations: the scripts do not sample others for the groups left out; at the target itself the bonus is off, as in the
code (the paper's inequality may include it).
Left out: stages of growing length.
Variant authors (their verl): e is the mean of -log pi_old, the last step's e switches the bonus on, and both means are
those of each micro-batch, weighted by its rows.
"""


@register
class PositiveReweighting(Weight):
    """Weighs the tokens of good responses less while the entropy is below its target."""

    failure_modes = ("entropy_collapse",)
    goes_by_reward = True
    target_entropy: float | None = parameter(REQUIRED, "(0, inf)", "delta in nats; none: the weight stays", example=0.3)
    start: float = parameter(1.0, "[0, 1]", "lambda before the first step")
    step: float = parameter(0.05, "[0, 1]", "by how much lambda moves per step")

    @property
    def needs(self) -> frozenset[str]:
        return frozenset() if self.target_entropy is None else frozenset({"entropy_old"})

    def control(self, batch: TokenBatch, state: Mapping[str, float]) -> Mapping[str, float]:
        if self.target_entropy is None:
            return {}
        last = state.get("weight", self.start)
        entropy = batch.mean("entropy_old", self.name)
        if not math.isfinite(entropy):
            return {"weight": last}
        sign = (entropy > self.target_entropy) - (entropy < self.target_entropy)
        return {"weight": min(max(last + self.step * sign, 0.0), 1.0)}

    def weight(self, batch: Prepared) -> Tensor:
        weight = self.start if self.target_entropy is None else batch.state_of(self.name)["weight"]
        return torch.ones_like(batch.advantage).masked_fill(batch.advantage > 0, weight)

    def formula(self) -> str:
        if self.target_entropy is None:
            return f"A *= ({self.start:g} where A > 0, 1 elsewhere)"
        moved = f"moved by {self.step:g} a step, down while the mean of H_old < {self.target_entropy:g}, up above"
        return f"A *= {self.start:g} where A > 0, {moved}"


recipe(
    "par",
    "justrl+positive_reweighting(target_entropy=?)-clip_higher",
    paper="arXiv:2511.05993",
    summary="good tokens count less while the entropy is below its target",
)
"""Positive-advantage reweighting (Jin et al., arXiv:2511.05993, the entropy-guided form), as two notes have it.

    A'_it = lambda A_i where A_i > 0;   lambda <- clip(lambda - 0.05, 0, 1) while H < delta, + 0.05 above

Tokens of good responses are what makes the entropy fall; they count less while it is low. H is the step's mean old
entropy; lambda is carried from step to step and settled before the step's weights. delta is not known here and is asked
for; target_entropy=none leaves lambda as it is. Open: where lambda starts, here at 1; its base, here JustRL's clip at
0.2 and the mean over all tokens. Left out: the forms that follow the share of training done.
"""


@register
class ConfidenceShift(Weight):
    """Adds how much surer the policy was of the prompt than of the response's least probable tokens."""

    failure_modes = ("entropy_collapse", "diversity")
    goes_by_reward = True
    additive = True
    alpha: float = parameter(
        REQUIRED, "[0, inf)", "weight of the difference between the two confidences", example=0.5, idle=0
    )
    fraction: float = parameter(0.2, "(0, 1]", "share of a response's tokens, the least probable, that count")
    groups: str = parameter(
        "mixed", ("mixed", "any_right"), "shifted are groups whose rewards differ, or with one right"
    )

    @property
    def shares_advantage(self) -> bool:
        return self.groups == "mixed"

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"logp_old", "logp_prompt", "group"} | ({"correct"} if self.groups == "any_right" else set()))

    def weight(self, batch: TokenBatch) -> Tensor:
        shift = self.alpha * (batch.require("logp_prompt", self.name).exp() - self._confidence(batch))
        return torch.where(batch.mask & self._signal(batch)[:, None], shift[:, None], 0.0)

    def _confidence(self, batch: TokenBatch) -> Tensor:
        """[N] the geometric mean of the probabilities of each response's least probable tokens."""
        logp = batch.require("logp_old", self.name).masked_fill(~batch.mask, torch.inf).sort(1).values
        count = (batch.mask.sum(1).double() * self.fraction - 1e-9).ceil().clamp(min=1)
        least = torch.arange(logp.shape[1], device=logp.device) < count[:, None]
        return (torch.where(least & logp.isfinite(), logp, 0.0).sum(1) / count.to(logp)).exp()

    def _signal(self, batch: TokenBatch) -> Tensor:
        """[N] bool: responses of groups that are shifted."""
        differs = (batch.require("advantage", self.name) != 0).any(1)
        told = differs if self.groups == "mixed" else batch.right(self.name)
        index, groups = group_index(batch.require("group", self.name))
        return group_sum(told.to(index), index, groups)[index] > 0

    def formula(self) -> str:
        where = "rewards differ" if self.groups == "mixed" else "one is right"
        return f"A += {self.alpha:g} (c(prompt) - c(y)) where {where}, c(y) over its {self.fraction:.0%} least probable"


recipe(
    "arm",
    "justrl+confidence_shift(alpha=?)",
    paper="arXiv:2602.05281",
    summary="surer responses gain less advantage, measured against the prompt",
)
"""ARM, the advantage re-weighting of ProGRPO (Li et al., Back to Basics, arXiv:2602.05281; known from notes on it).

    A'_i = A_i + alpha ( c(q) - c(o_i | q) ),   in groups whose rewards differ
    c(o | q) = exp( mean of log p over the ceil(20 %) least probable tokens of o ),   c(q) = exp( mean of log p over q )

A response counts less if the policy is surer of it than of the prompt, and more if it is less sure, right or wrong;
p is the old policy's, at the temperature of the rollouts. On JustRL's clip and mean over all tokens.
alpha is not published, so that it is asked for. Open: c(q) "from the prompt's perplexity", here one over it; the groups
left out, those with all wrong in one note and those with equal rewards in another: groups=any_right takes the first.
Deviations: ties among the least probable tokens make no difference; a prompt of one token has c(q) = 1.
"""
