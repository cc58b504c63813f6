"""Rollouts of an older policy or of another engine."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from objectives.batch import Prepared, TokenBatch, over_scope
from objectives.errors import ObjectiveError
from objectives.ops import Tensor, running_sum, torch
from objectives.part import Bounds, Extra, Mask, Modifier, Part, Penalty, Ratio, Surrogate, parameter
from objectives.parts.losses import Drift, log_ratio
from objectives.recipes import recipe
from objectives.zoo import register

recipe(
    "icepop",
    "grpo+sampler_correction(cap=5,low=0.5,outside=drop)-kl",
    paper="arXiv:2510.18855",
    summary="tokens that trainer and sampling engine find differently likely are left out",
)
"""IcePop: tokens on which trainer and sampling engine disagree are left out (Ling Team, arXiv:2510.18855).

    J = (1/G) sum_i (1/|y_i|) sum_t M(w_it) min( r A, clip(r, 0.8, 1.2) A ),   w = pi_old / pi_sampler
    M(w) = w where 0.5 <= w <= 5, 0 elsewhere

On GRPO. Dropped tokens stay in the denominator. Left out: the paper's KL to the reference, whose weight is not known
here; kl(beta=...) adds it. INTELLECT-3 (arXiv:2512.16144) takes one ratio, pi / pi_sampler, for both: not this.
"""


@register
class PrefixMinRatio(Ratio):
    """Importance ratio of each token times the smallest one before it in the response."""

    acts_on_policy = False
    failure_modes = ("mixture_of_experts", "stale_rollouts")
    reads_once_moved = frozenset({"logp_old"})
    prefix: str = parameter(
        "strict", ("strict", "capped", "inclusive"), "tokens before, or 1 as well, or itself as well"
    )

    def ratio(self, rows: TokenBatch, logp: Tensor) -> Tensor:
        change = log_ratio(rows, logp, self.name)
        before = torch.where(rows.mask, change.detach(), math.inf)
        if self.prefix != "inclusive":
            first = 0.0 if self.prefix == "capped" else math.inf
            before = torch.nn.functional.pad(before, (1, 0), value=first)[:, :-1]
        smallest = before.cummin(1).values
        return (change + torch.where(smallest.isinf(), 0.0, smallest)).clamp(-20.0, 20.0).exp()

    def formula(self) -> str:
        which = {"strict": "before it", "capped": "before it and 1", "inclusive": "up to it"}[self.prefix]
        return f"r = pi(y) / pi_old(y) sg[the smallest pi(y) / pi_old(y) {which}]"


recipe(
    "minpro",
    "cispo+prefix_min_ratio+cispo(low=?,high=?)",
    paper="arXiv:2601.22718",
    summary="importance weights times the smallest of their prefix, clipped and detached",
    essence=("prefix_min_ratio",),
)
"""MinPRO: the smallest prefix ratio in place of the prefix's product (arXiv:2601.22718).

    J = (1 / sum_i |y_i|) sum_i sum_t sg[ clip(rho_it min_{s<t} rho_is, 1 - low, 1 + high) ] A_it log pi(y_it)

rho = pi/pi_old; the exact correction would be the product over the prefix. The first token has no prefix: its minimum
is 1. The widths are CISPO's kind and not published, so that they are asked for.
Open: whether 1 takes part in the minimum (prefix=capped), or the token itself does (prefix=inclusive); as printed,
neither (prefix=strict). Deviations: log-ratios, and their sums, are clamped to [-20, 20]; tokens that the loss does not
see are not there.
"""


@register
class Taper(Surrogate):
    """Policy gradient whose importance weight is clipped where A < 0, and left out where A > 0."""

    acts_on_policy = False
    failure_modes = ("stale_rollouts",)
    printed = "(1 where A > 0, sg[clip(r, {low:g}, {high:g})] where A < 0) A log p"
    low: float = parameter(0.0, "[0, inf)", "smallest weight where A < 0")
    high: float = parameter(1.0, "[0, inf)", "largest weight where A < 0")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low > self.high:
            raise ObjectiveError(f"{self.name}: low={self.low:g} exceeds high={self.high:g}")

    def loss(self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Extra) -> Tensor:
        weight = torch.where(advantage > 0, 1.0, ratio.detach().clamp(self.low, self.high))
        return -weight * advantage * (logp - logp.detach()).exp()


recipe(
    "topr",
    "grpo+signed_reward(right=1)+sequence_ratio(norm=sum)+taper+seq_mean-kl",
    paper="arXiv:2503.14286",
    summary="right answers without importance weights, wrong ones with their sequence's, at most 1",
    essence=("signed_reward", "taper"),
)
"""TOPR: tapered off-policy REINFORCE (Le Roux et al., arXiv:2503.14286).

    J = (1/G) sum_i (1/|y_i|) sum_t w_i A_i log pi(y_it),   A_i = 1 where right, -1 where wrong
    w_i = 1 where A_i > 0,  sg[ clip(prod_t pi/pi_old, 0, 1) ] where A_i < 0

Right answers are learnt whatever the policy has become; wrong ones no longer once they are unlikely. No baseline:
dynamic_sampling would take groups of one kind away. The taper is meant for the product of a response's ratios, which
the recipe brings; sequence_ratio's norm=mean (a document of verl's) or token ratios make it another method.
Deviations: the product's logarithm is clamped to [-20, 20]; the loss is -w A exp(log pi - sg[log pi]).
Lengths and products are of the policy's tokens.
"""


@register
class SequenceDrift(Penalty):
    """Holds the log-prob of each whole response near that of the policy of the rollouts."""

    acts_on_policy = False
    failure_modes = ("many_epochs", "stale_rollouts")
    reads_once_moved = frozenset({"logp_old"})
    purpose = Drift.purpose
    printed = "+ {tau:g} * log p/p_old sg[sum over the response of log pi(y) / pi_old(y)]"
    tau: float = parameter(0.1, "[0, inf)", "weight of the squared log-ratio; half of it is in the loss", idle=0)

    def penalty(self, rows: Prepared, logp: Tensor, entropy: Tensor | None) -> Tensor:
        anchor = logp.detach() if rows.on_policy and rows.logp_old is None else rows.require("logp_old", self.name)
        change = (logp - anchor) * rows.mask
        total = change.detach().sum(1, keepdim=True)
        return self.tau * total * (change - change.detach() / 2)


recipe(
    "kimi",
    "grpo+group_center+reinforce+sequence_drift+seq_sum-kl",
    roll="grpo+group_center+reinforce+drift(beta=0.1)+token_mean-kl",
    paper="arXiv:2501.12599",
    summary="policy gradient of centred rewards, each response's log-prob held near the old one",
    contribution=("reinforce", "sequence_drift", "drift"),
)
"""Kimi k1.5's policy mirror descent (arXiv:2501.12599, eq. 3).

    grad J = (1/N) sum_i [ (R_i - mean_group) grad log pi(y_i) - (tau/2) grad ( log pi(y_i)/pi_old(y_i) )^2 ]

log pi(y_i) is the sum over the response, whose square is held near the policy of the rollouts. Variant roll (alibaba/
ROLL): the square of each token, mean over all tokens. Open: tau; ROLL's default 0.1 here. Left out: the length reward.
The gradient of the square is given token by token, tau sg[log pi(y_i)/pi_old(y_i)] grad log pi(y_it), so that passes
and masks do not leak; the equation prints that form, whose value is twice the penalty's.
Sums are over the policy's tokens.
"""


recipe(
    "dro",
    verl="grpo+reinforce+drift(beta=?)+token_mean-kl",
    paper="verl 2026",
    summary="plain policy gradient with a squared log-ratio to the old policy as penalty",
    contribution=("reinforce", "drift"),
)
"""DRO, as verl has it: a policy gradient without a ratio, held near the old policy by a squared log-ratio.

    L = - mean_t [ A_it log pi(y_it) - (beta/2) (log pi/pi_old)^2 ]

beta has no published value, so that it is asked for. The penalty is on responses without advantage as well, and on
tokens that a mask leaves out. Deviations: the first term is -A exp(log pi - sg[log pi]), of the same gradient.
Open: its base; here GRPO's advantage and the mean over all tokens. Added to another objective, it brings the penalty.
"""


@register
class SecondMomentClip(Modifier):
    """Clips only as far as the second moment of the log-ratios demands.

    M2PO's clip as the authors' code has it (arXiv:2510.01161, Infini-AI-Lab/M2PO).
    """

    failure_modes = ("stale_rollouts",)
    sets = frozenset({"low", "high"})
    reads_once_moved = frozenset({"logp", "logp_old"})
    budget: float = parameter(0.04, "(0, inf)", "largest second moment of the clipped log-ratios")
    low: float = parameter(0.0, "[0, 1]", "smallest width below 1")
    high: float = parameter(0.0, "[0, inf)", "smallest width above 1")
    scope: str = parameter("minibatch", ("minibatch", "microbatch"), "where the second moment is taken")

    def modify(self, bounds: Bounds, batch: Prepared) -> Bounds:
        if batch.on_policy:  # all ratios are 1, within any bounds
            return replace(bounds, low=1.0, high=math.inf)
        tau = over_scope(batch, self.scope, self._tau)
        low, high = (-torch.expm1(-tau)).clamp(min=self.low), torch.expm1(tau).clamp(min=self.high)
        return replace(bounds, low=low.to(batch.require("logp", self.name)), high=high.to(low))

    def _tau(self, batch: Prepared) -> Tensor:
        """[n, 1] float64: the width, the same for all rows; infinite where the harmful tokens are within the budget."""
        squares = harmful_squares(batch, self.name)
        ordered = squares[squares > 0].sort().values
        count, tau = len(ordered), math.inf
        if count and ordered.sum() > self.budget * count * (1 + 1e-6):
            left = count - torch.arange(count, device=ordered.device)
            capped = running_sum(ordered, 0) - ordered + left * ordered
            first = int((capped > self.budget * count * (1 + 1e-6)).nonzero()[0])
            tau = _below(ordered, first - 1) if first else 0.0
        return ordered.new_full((len(batch.mask), 1), tau)

    def numbers(self) -> Mapping[str, str]:
        return {"low": f"min(exp(-tau), {1 - self.low:g})", "high": f"max(exp(tau), {1 + self.high:g})"}

    def where(self) -> str:
        where = " in each micro-batch" if self.scope == "microbatch" else ""
        return f"z = log r; tau = the largest |z| with mean of min(z^2, tau^2) < {self.budget:g} where A z > 0{where}"


def _below(squares: Tensor, place: int) -> float:
    """A width just below the root of a square, so that rounding moves no log-ratio over it."""
    root, smaller = squares[place].sqrt().item(), squares[squares < squares[place] * (1 - 1e-5)]
    halfway = (root + smaller[-1].sqrt().item()) / 2 if len(smaller) else 0.0
    return max(halfway, 0.999 * root)


def harmful_squares(batch: Prepared, reader: str) -> Tensor:
    """[N, T] float64: the squared log-ratio where it has moved in the direction of the advantage; 0 elsewhere."""
    change = log_ratio(batch, batch.require("logp", reader), reader).double()
    return torch.where(batch.mask & (batch.advantage * change > 0), change, 0.0).square()


@register
class SecondMomentMask(Mask):
    """Masks the tokens that have moved furthest with their advantage, until the rest is within a budget."""

    acts_on_policy = False
    failure_modes = ("stale_rollouts",)
    reads_once_moved = frozenset({"logp", "logp_old"})
    shrinks_denominator = False
    printed = "A z <= 0 or z^2 < v"
    explained = "z = log r; v = the least z^2 with mean of z^2 up to it > {budget:g} where A z > 0"
    budget: float = parameter(0.04, "(0, inf)", "largest mean of the squared log-ratios of harmful tokens")

    def notices(self, parts: Mapping[str, Part]) -> Iterator[str]:
        yield from super().notices(parts)
        for part in parts.values():
            if isinstance(part, Surrogate) and part.reads_bounds:
                yield f"{self.name}, {part.name}: the mask is meant to replace a clip. Write unclipped for {part.name}."
            elif part.name == "banded_reinforce":
                yield f"{self.name}, {part.name}: both cut by the ratio. Write -{self.name}."

    def keeps(self, batch: Prepared) -> Tensor:
        if batch.on_policy:  # all ratios are 1
            return batch.mask
        squares = harmful_squares(batch, self.name)
        ordered = squares[squares > 0].sort().values
        count = torch.arange(1, len(ordered) + 1, device=ordered.device)
        beyond = (running_sum(ordered, 0) > self.budget * count * (1 + 1e-6)).nonzero()
        return batch.mask if len(beyond) == 0 else batch.mask & (squares < ordered[beyond[0, 0]])


recipe(
    "m2po",
    "grpo+unclipped+second_moment_mask+token_mean-kl",
    authors="grpo+second_moment_clip(scope=microbatch)+token_mean(scope=microbatch)-kl",
    paper="arXiv:2510.01161",
    summary="the tokens that moved most are masked, as many as a second moment demands; no clip",
    contribution=("unclipped", "second_moment_mask", "second_moment_clip"),
)
"""M2PO: no more off-policy than a second moment allows (arXiv:2510.01161, Algorithm 1).

    harmful: A > 0 and r > 1, or A < 0 and r < 1;   z = log pi/pi_old
    J = 1 / sum |y_i|  sum_i sum_t M_it r_it A_i,
    M_it = 0 for the harmful tokens of the largest z^2, until the mean of z^2 over the other harmful ones is <= 0.04

Searched again for every mini-batch, over the tokens of all processes. Masked tokens stay in the denominator. The
budget is that of the authors' page and scripts. Deviations: tokens of equal z^2 are masked together, so that the
order of rows has no say; a mean may exceed the budget by 1e-6 of it; each z is clamped to [-20, 20].
Variant authors (their verl): PPO's clip to exp(-tau) .. exp(tau) instead, tau^2 the largest z^2 for which the mean of
min(z^2, tau^2) over the harmful tokens is below 0.04; bounds and token mean per micro-batch. That token is clipped too,
as tau is taken 0.1 % smaller: in theirs rounding decides (no token of 40 random batches has another gradient). Theirs
has tools' tokens in tau: 6 of 20 batches that have some differ, by 0.3 of the largest gradient (median).
"""
