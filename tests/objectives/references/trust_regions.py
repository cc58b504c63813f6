"""How far a token may move: other clips and gates."""

import math
from collections.abc import Callable

import numpy as np

from tests.objectives.batches import Array, Case, Flags
from tests.objectives.references.parts import (
    cispo,
    clip,
    clipped,
    dynamic_sampling,
    group_center,
    kl,
    micro_batch_mean,
    seq_mean,
    sequence_ratio,
    token_mean,
    unclipped,
)
from tests.objectives.references.stages import Kept, Reference, Terms, pools, stage

REFERENCES: dict[str, Reference] = {}

# ASPO (arXiv:2510.06062): weight min(1/r, 3) where A > 0, none above 1.2; min(r, 3) where A < 0, none below 0.8.


@stage
def flipped_clip(case: Case, ratio: Array, slope: Array, advantage: Array, *, low=0.2, high=0.2, most=3.0) -> Terms:
    """The weight times A, and what of it is a derivative by log pi."""
    value = np.minimum(np.where(advantage > 0, 1 / ratio, ratio), most) * advantage
    dropped = np.where(advantage > 0, ratio > 1 + high, ratio < 1 - low)
    return value, np.where(dropped, 0.0, value), abs(value)


ASPO = {"stops_gradients": True, "penalties": [kl(0.001)]}


REFERENCES |= {
    "aspo": clipped(**ASPO, surrogate=flipped_clip()),
    "aspo(low=0.4,most=2)+clip_higher-kl": clipped(stops_gradients=True, surrogate=flipped_clip(0.4, 0.28, 2.0)),
}


# BAPO (arXiv:2510.18927): PPO's clip with bounds found by Algorithm 1, or as the authors' code finds them.
#
# The share of P = sum over A > 0 of min(r, upper) A in P + N, N = sum over A < 0 of max(r, lower) |A|, weighted by
# pi_old; in the code P/N, unweighted, of each micro-batch, with the lower bound first. Equal up to 1e-6 is reached.


def measured(gain: Array, ratio: Array, lower: float, upper: float, share: bool) -> float:
    """P/(P + N) or P/N; infinite where there is nothing below the line."""
    positive = (np.maximum(gain, 0) * np.minimum(ratio, upper)).sum()
    negative = (np.maximum(-gain, 0) * np.maximum(ratio, lower)).sum()
    below = positive + negative if share else negative
    return float(positive / below) if below > 0 else math.inf


def algorithm_1(gain: Array, ratio: Array, target: float = 0.4) -> tuple[float, float]:
    """0.6 ... 0.9 and 1.2 ... 3.0, the upper bound first."""
    lower, upper = 60, 120
    while measured(gain, ratio, lower / 100, upper / 100, True) < target * (1 - 1e-6) and lower + 2 <= 90:
        if upper + 5 <= 300:
            upper += 5
        else:
            lower += 2
    return lower / 100, upper / 100


def authors_search(gain: Array, ratio: Array) -> tuple[float, float]:
    """0.8 ... 0.95 and 1.2 ... 2.0, the lower bound first."""
    lower, upper, target = 80, 120, 0.5 * (1 - 1e-6)
    while measured(gain, ratio, lower / 100, upper / 100, False) < target and lower < 95:
        lower += 5
    while measured(gain, ratio, lower / 100, upper / 100, False) < target and upper < 200:
        upper += 10
    return lower / 100, upper / 100


@stage
def bapo(
    case: Case,
    ratio: Array,
    slope: Array,
    advantage: Array,
    *,
    search: Callable[[Array, Array], tuple[float, float]],
    weighted: bool,
    scope: str,
    cap=math.inf,
) -> Terms:
    """PPO's clip in each pool with the bounds found there."""
    found = [np.zeros(ratio.shape) for _ in range(3)]
    for pool in pools(case, case.mask, scope):
        weight = np.exp(case.logp_old[pool]) if weighted else 1.0
        lower, upper = search(weight * advantage[pool], ratio[pool])
        here = clip(1 - lower, upper - 1, cap)(case, ratio, slope, advantage)
        for whole, part in zip(found, here, strict=True):
            whole[pool] = part[pool]
    return tuple(found)


REFERENCES |= {
    "bapo": clipped(surrogate=bapo(algorithm_1, weighted=True, scope="batch")),
    "bapo(variant=authors)": clipped(
        surrogate=bapo(authors_search, weighted=False, scope="micro", cap=3.0), share=micro_batch_mean
    ),
    "bapo(weighted=false,target=0.5)": clipped(
        surrogate=bapo(lambda gain, ratio: algorithm_1(gain, ratio, 0.5), weighted=False, scope="batch")
    ),
}


# CE-GPPO (arXiv:2509.20712): beta1 (1 - low) A below where A < 0, beta2 (1 + high) A above where A > 0, else r A.
#
# Where A < 0 and r > cap the objective is cap A, without a gradient.


@stage
def gradient_preserving_clip(
    case: Case, ratio: Array, slope: Array, advantage: Array, *, beta1=0.5, beta2=1.0, high=0.2, cap=10.0
) -> Terms:
    """The objective of each token, and its derivative by log pi."""
    value, by_logp = ratio * advantage, slope * advantage
    for token in zip(*case.mask.nonzero(), strict=True):
        if advantage[token] < 0 and ratio[token] < 0.8:
            value[token] = by_logp[token] = beta1 * 0.8 * advantage[token]
        elif advantage[token] > 0 and ratio[token] > 1 + high:
            value[token] = by_logp[token] = beta2 * (1 + high) * advantage[token]
        elif advantage[token] < 0 and ratio[token] > cap:
            value[token], by_logp[token] = cap * advantage[token], 0.0
    return value, by_logp, abs(by_logp)


CE_GPPO = {"stops_gradients": True, "selects": [dynamic_sampling]}


REFERENCES |= {
    "ce_gppo": clipped(**CE_GPPO, surrogate=gradient_preserving_clip()),
    "ce_gppo(beta1=0.75,beta2=0.5)+clip_higher-dual_clip": clipped(
        **CE_GPPO, surrogate=gradient_preserving_clip(0.75, 0.5, high=0.28, cap=math.inf)
    ),
}


# CISPO (arXiv:2506.13585, eq. 4-5): sg[clip(r, 1 - low, 1 + high)] A log pi, mean over all tokens; weights in [0, 5].
#
# The value is that of sg[w] A pi / sg[pi], which has the same gradient.

REFERENCES |= {
    "cispo": clipped(stops_gradients=True, surrogate=cispo()),
    "cispo(low=0.2,high=0.2)": clipped(stops_gradients=True, surrogate=cispo(0.2, 0.2)),
}


# DCPO (arXiv:2509.02333): clip bounds .5 + .5 sqrt(1 - 4 low/q) and .5 + .5 sqrt(1 + 4 high/q), at most 10.


@stage
def dynamic_clip(
    case: Case, ratio: Array, slope: Array, advantage: Array, *, low=0.16, high=0.2, most=10.0, cap=10.0
) -> Terms:
    """PPO's clip token by token, with the dual clip at `cap`."""
    value, by_logp = ratio * advantage, slope * advantage
    for token in zip(*case.mask.nonzero(), strict=True):
        q, a, r = math.exp(case.logp_old[token]), advantage[token], ratio[token]
        lower = 0.5 + 0.5 * math.sqrt(max(1 - 4 * low / q, 0))
        upper = min(0.5 + 0.5 * math.sqrt(1 + 4 * high / q), most)
        if (a > 0 and r > upper) or (a < 0 and r < lower) or (a < 0 and r > cap):
            value[token] = a * (upper if a > 0 else lower if r < lower else cap)
            by_logp[token] = 0.0
    return value, by_logp, abs(by_logp)


REFERENCES |= {
    "dcpo": clipped(surrogate=dynamic_clip(), share=seq_mean),
    "dcpo(variant=authors)": clipped(surrogate=dynamic_clip(0.2, 0.28), share=micro_batch_mean),
    "dcpo(low=0.02,high=0.01,most=2)+token_mean-dual_clip": clipped(
        surrogate=dynamic_clip(0.02, 0.01, 2.0, np.inf), share=token_mean
    ),
}


# M2PO (arXiv:2510.01161): r A without the tokens that moved most, as Algorithm 1 takes them out, one value at a time.
#
# The code's clip (Infini-AI-Lab/M2PO@af54a3e, verl/trainer/ppo/core_algos.py:683-810): tau from the sorted squares.


def harmful(case: Case, advantage: Array) -> tuple[Array, Flags]:
    """The log-ratios, and the tokens that have moved in the direction of their advantage."""
    change = np.clip(case.current - case.logp_old, -20, 20)
    return change, case.mask & (((advantage > 0) & (change > 0)) | ((advantage < 0) & (change < 0)))


@stage
def second_moment_mask(case: Case, advantage: Array, *, budget=0.04) -> Kept:
    """The largest squares leave until the mean of the others is within the budget."""
    change, there = harmful(case, advantage)
    while there.any() and (change[there] ** 2).mean() > budget * (1 + 1e-6):
        there = there & (change**2 < (change[there] ** 2).max())
    return case.mask & (there | ~harmful(case, advantage)[1]), False


def m2po_width(squares: list[float], budget: float) -> float:
    """Tau of the ascending squares of a micro-batch."""
    total = budget * len(squares)
    if sum(squares) <= total * (1 + 1e-6):
        return math.inf
    for k, square in enumerate(squares):
        if sum(squares[: k + 1]) + square * (len(squares) - k - 1) > total * (1 + 1e-6):
            return below_the_last(squares[:k]) if k else 0.0
    raise AssertionError("the sum exceeds the budget")


def below_the_last(squares: list[float]) -> float:
    """The code clips at the last root itself, where rounding decides; here a little below it."""
    last = math.sqrt(squares[-1])
    others = [math.sqrt(square) for square in squares if square < squares[-1] * (1 - 1e-5)]
    return max(0.999 * last, (last + others[-1]) / 2 if others else 0.0)


@stage
def second_moment_clip(
    case: Case, ratio: Array, slope: Array, advantage: Array, *, budget: float, low=0.0, high=0.0, scope="batch"
) -> Terms:
    """PPO's clip with these bounds."""
    change, there = harmful(case, advantage)
    below, above = np.ones(ratio.shape), np.full(ratio.shape, math.inf)
    for pool in pools(case, case.mask, scope):
        tau = m2po_width(sorted((change[pool & there] ** 2).tolist()), budget)
        below[pool], above[pool] = max(1 - math.exp(-tau), low), max(math.exp(tau) - 1, high)
    return clip(below, above)(case, ratio, slope, advantage)


REFERENCES |= {
    "m2po": clipped(stops_gradients=True, surrogate=unclipped, masks=[second_moment_mask()]),
    "m2po(variant=authors)": clipped(
        stops_gradients=True, surrogate=second_moment_clip(0.04, scope="micro"), share=micro_batch_mean
    ),
    "m2po(budget=2)": clipped(stops_gradients=True, surrogate=unclipped, masks=[second_moment_mask(2.0)]),
    "dapo-soft_overlong-dynamic_sampling+second_moment_clip(budget=2,low=0.01,high=0.01)": clipped(
        stops_gradients=True, surrogate=second_moment_clip(2.0, 0.01, 0.01)
    ),
}


# UP (arXiv:2607.06987, eq. 14-15; verl's pull request 7022): A pi/sg[pi] where A > 0, PPO's clip elsewhere.


@stage
def unbounded_positive(case: Case, ratio: Array, slope: Array, advantage: Array, *, low=0.2, cap=math.inf) -> Terms:
    """The two branches."""
    value, by_logp, size = clip(low, math.inf, cap)(case, ratio, slope, advantage)
    good = np.broadcast_to(advantage > 0, ratio.shape)
    return tuple(np.where(good, advantage, it) for it in (value, by_logp, size))


REFERENCES |= {
    "up": clipped(surrogate=unbounded_positive(), stops_gradients=True),
    "up(variant=verl)": clipped(surrogate=unbounded_positive(cap=3.0), stops_gradients=True),
    "up(low=0.1)+dual_clip(cap=1.5)": clipped(surrogate=unbounded_positive(0.1, 1.5), stops_gradients=True),
}


# REC (arXiv:2509.24203; agentscope-ai/Trinity-RFT@1d7fae4, policy_loss_fn/rec_policy_loss.py:66-116).


@stage
def rec(
    case: Case, ratio: Array, slope: Array, advantage: Array, *, mode: str, weighted=False, low=0.2, high=0.2
) -> Terms:
    """The branches of the code, whose sums of flags are disjunctions."""
    inside = (ratio >= 1 - low) & (ratio <= 1 + high)
    if mode == "one-side":
        inside = ((ratio <= 1 + high) & (advantage >= 0)) | ((advantage <= 0) & (ratio >= 1 - low))
    if mode == "ring":
        inside = inside | ((advantage >= 0) & (ratio <= 1 - 0.6)) | ((advantage <= 0) & (ratio >= 1 + 2.0))
    value = inside * advantage * (ratio if weighted else 1.0)
    return value, value, abs(value)


REC = {"advantage": group_center, "stops_gradients": True}


REFERENCES |= {
    "rec": clipped(**REC, surrogate=rec("one-side")),
    "rec(variant=two_side)": clipped(**REC, surrogate=rec("two-side")),
    "rec(variant=ring)": clipped(**REC, surrogate=rec("ring")),
    "rec(variant=is)": clipped(**REC, surrogate=rec("one-side", weighted=True)),
    "justrl+rec(low=0.1,high=0.5)": clipped(surrogate=rec("one-side", low=0.1, high=0.5), stops_gradients=True),
}


# SAPO (arXiv:2511.20347): (4/tau) sigmoid(tau (r - 1)) A, tau 1 where A > 0 and 1.05 elsewhere; mean per response.


@stage
def soft_gate(case: Case, ratio: Array, slope: Array, advantage: Array, *, positive=1.0, negative=1.05) -> Terms:
    """The gate, and its derivative 4 s (1 - s) by r, in which s^2 is taken off s."""
    tau = np.where(advantage > 0, positive, negative)
    s = 1 / (1 + np.exp(-tau * (ratio - 1)))
    return 4 / tau * s * advantage, 4 * s * (1 - s) * slope * advantage, 4 * s * (1 + s) * abs(slope * advantage)


SAPO = {"share": seq_mean}


REFERENCES |= {
    "sapo": clipped(**SAPO, surrogate=soft_gate()),
    "sapo(tau_pos=0.5,tau_neg=2)": clipped(**SAPO, surrogate=soft_gate(0.5, 2.0)),
    "sapo+sequence_ratio": clipped(**SAPO, surrogate=soft_gate(), ratio=sequence_ratio(), stops_gradients=True),
}


# Symmetric loss (arXiv:2405.17618): alpha times PPO's, and beta A (1 - pi) / pi_old where the clip is idle.
#
# What has no gradient, A / pi_old, is left out of both.


def symmetric(
    alpha: float = 0.5, beta: float = 0.4, low: float = 0.2, high: float = 0.2
) -> Callable[..., tuple[Array, ...]]:
    """The two objectives, and where the second one counts as the authors' flags say."""
    ppo = clip(low, high)

    def surrogate(case: Case, ratio: Array, slope: Array, advantage: Array) -> Terms:
        value, by_logp, _ = ppo(case, ratio, slope, advantage)
        inside = (1 - low <= ratio) & (ratio <= 1 + high)
        idle = inside | (ratio * advantage <= np.clip(ratio, 1 - low, 1 + high) * advantage)
        by_logp = alpha * by_logp + beta * idle * slope * advantage
        return alpha * value + beta * idle * ratio * advantage, by_logp, abs(by_logp)

    return surrogate


REFERENCES |= {
    "symmetric_loss": clipped(surrogate=symmetric()),
    "symmetric_loss(alpha=0.25,beta=1)": clipped(surrogate=symmetric(0.25, 1.0)),
    "symmetric_loss+clip_higher": clipped(surrogate=symmetric(high=0.28)),
}
