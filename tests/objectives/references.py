"""The methods a second time: float64 numpy loops written from the papers' equations, sharing no code with the package.

`reference(method, case)` gives, for each update pass, the coefficient with which grad log pi(y_it) enters the gradient
of the objective. `RECIPES` writes down what each paper and each authors' code says; `COMPOSITIONS` some mixtures.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Token = tuple[int, int]


@dataclass(frozen=True)
class Case:
    """A rollout batch as plain arrays: token fields [N, T], row fields [N]. `logp` None: the policy has not moved."""

    mask: NDArray[np.bool_]
    group: NDArray[np.int64]
    reward: Array
    correct: Array
    truncated: NDArray[np.bool_]
    micro_batch: NDArray[np.int64]
    logp_old: Array
    entropy_old: Array
    logp_ref: Array
    max_length: int
    logp_sampler: Array
    logp: Array | None = None
    entropy: Array | None = None

    @property
    def current(self) -> Array:
        """[N, T] log-probs at which the gradient is taken."""
        return self.logp_old if self.logp is None else self.logp

    @property
    def current_entropy(self) -> Array:
        """[N, T] entropies there."""
        return self.entropy_old if self.logp is None or self.entropy is None else self.entropy


@dataclass(frozen=True)
class Stare:
    """STARE's weights: W on the most surprising P of A > 0, M on those of A < 0, while H_old < target."""

    amplify: float = 1.1
    attenuate: float = 1.0
    fraction: float = 0.1
    target: float | None = 0.3
    scope: str = "batch"
    source: str = "old"


@dataclass(frozen=True)
class Entropy20:
    """20-Entropy's mask: the top `fraction` of the tokens by entropy."""

    fraction: float = 0.2
    scope: str = "batch"
    source: str = "current"
    leaves_denominator: bool = True


@dataclass(frozen=True)
class S2T:
    """STAPO's mask: rare, rewarded, and below the q-quantile of the entropies of those."""

    tau: float = 0.002
    q: str = "0.75"
    scope: str = "batch"
    source: str = "current"
    leaves_denominator: bool = True


@dataclass(frozen=True)
class Lopti:
    """Lopti's passes: p_old < eta (or below a quantile of p_old), then the others."""

    eta: float = 0.5
    portion: str | None = None
    high_first: bool = False


@dataclass(frozen=True)
class Method:
    """What a method says. The defaults are the clipped surrogate with z-scored advantages, mean per response."""

    soft_overlong: tuple[int, int] | bool = False
    dynamic_sampling: bool = False
    overlong_filter: bool = False
    over_deviation: bool = True
    alpha: float | None = None
    sampler_cap: float | None = None
    stare: Stare | None = None
    low: float = 0.2
    high: float = 0.2
    cap: float = math.inf
    entropy20: Entropy20 | None = None
    s2t: S2T | None = None
    mean: str = "response"
    beta: float = 0.0
    estimator: str = "k3"
    clamp: float | None = None
    entropy_bonus: float = 0.0
    lopti: Lopti | None = None


GRPO = Method(beta=0.04)
JUSTRL = Method(high=0.28, mean="batch")
JUSTRL_CODE = replace(JUSTRL, cap=10.0, mean="micro")
STARE = replace(JUSTRL, dynamic_sampling=True, stare=Stare())
DAPO = replace(JUSTRL, soft_overlong=True, dynamic_sampling=True)
DAPO_CODE = replace(JUSTRL_CODE, soft_overlong=True, dynamic_sampling=True)
YANG = Method(high=0.24, mean="batch", beta=0.001)
YANG_CODE = replace(YANG, cap=10.0, mean="micro", clamp=5.0)

RECIPES: dict[str, Method] = {
    "grpo": GRPO,
    "dapo": DAPO,
    "dapo(variant=authors)": DAPO_CODE,
    "entropy20": replace(DAPO, entropy20=Entropy20()),
    "entropy20(variant=authors)": replace(DAPO_CODE, entropy20=Entropy20(scope="micro")),
    "entropy20(variant=v1)": replace(DAPO, entropy20=Entropy20(leaves_denominator=False)),
    "justrl": JUSTRL,
    "justrl(variant=authors)": JUSTRL_CODE,
    "advantage_reweighting": replace(YANG, alpha=0.3),
    "advantage_reweighting(variant=authors)": replace(YANG_CODE, alpha=0.2),
    "lopti": replace(YANG, lopti=Lopti(0.5)),
    "lopti(variant=authors)": replace(YANG_CODE, lopti=Lopti(0.4)),
    "stare": STARE,
    "stare(variant=c2)": replace(STARE, stare=Stare(attenuate=0.9)),
    "stare(variant=authors)": replace(STARE, cap=10.0, mean="micro", stare=Stare(scope="micro", source="current")),
    "stapo": replace(JUSTRL, s2t=S2T()),
    "stapo(variant=v1)": replace(JUSTRL, s2t=S2T(q="0.8")),
    "stapo(variant=authors)": replace(JUSTRL_CODE, s2t=S2T()),
}

COMPOSITIONS: dict[str, Method] = {
    "justrl+group_center": replace(JUSTRL, over_deviation=False),
    "justrl+overlong_filter": replace(JUSTRL, overlong_filter=True),
    "justrl+soft_overlong(max_length=8,cache=4)": replace(JUSTRL, soft_overlong=(8, 4)),
    "justrl+sampler_correction": replace(JUSTRL, sampler_cap=2.0),
    "ar+sampler_correction(cap=1)": replace(YANG, alpha=0.3, sampler_cap=1.0),
    "dapo(scope=prompt)": replace(DAPO, mean="prompt"),
    "grpo+dual_clip": replace(GRPO, cap=3.0),
    "grpo(low=0.1)+clip_higher(high=0.5)": replace(GRPO, low=0.1, high=0.5),
    "grpo(low=0)": replace(GRPO, low=0.0, high=0.0),
    "grpo(estimator=k1)": replace(GRPO, estimator="k1"),
    "grpo(estimator=k2,beta=0.5)": replace(GRPO, estimator="k2", beta=0.5),
    "grpo+entropy_bonus(coefficient=0.01)": replace(GRPO, entropy_bonus=0.01),
    "grpo+entropy20": replace(GRPO, entropy20=Entropy20()),
    "entropy20(source=old,fraction=0.5)": replace(DAPO, entropy20=Entropy20(0.5, source="old")),
    "stapo(source=old,tau_p=0.1)": replace(JUSTRL, s2t=S2T(0.1, source="old")),
    "stapo(denominator=all,q=0.5)": replace(JUSTRL, s2t=S2T(q="0.5", leaves_denominator=False)),
    "stapo(scope=microbatch,q=1)": replace(JUSTRL, s2t=S2T(q="1", scope="micro")),
    "grpo+stapo(tau_p=1)": replace(GRPO, s2t=S2T(tau=1.0)),
    "stare(target_entropy=none,fraction=0.25,amplify=2,attenuate=0.5)": replace(
        STARE, stare=Stare(2.0, 0.5, 0.25, None)
    ),
    "stare(source=current,target_entropy=0.5)": replace(STARE, stare=Stare(target=0.5, source="current")),
    "stare(target_entropy=0.25)": replace(STARE, stare=Stare(target=0.25)),
    "stare(scope=microbatch,fraction=1)": replace(STARE, stare=Stare(fraction=1.0, scope="micro")),
    "lopti(order=high_first)": replace(YANG, lopti=Lopti(high_first=True)),
    "lopti(portion=0.3)": replace(YANG, lopti=Lopti(portion="0.3")),
    "lopti(eta=1)+entropy_bonus": replace(YANG, lopti=Lopti(1.0), entropy_bonus=0.001),
    "advantage_reweighting(alpha=1)+lopti": replace(YANG, alpha=1.0, lopti=Lopti()),
    "dapo+lopti": replace(DAPO, lopti=Lopti()),
    "stapo+stare(target_entropy=none)": replace(JUSTRL, s2t=S2T(), stare=Stare(target=None)),
    "entropy20(variant=authors)+stapo+ar+lopti+kl": replace(
        DAPO_CODE, entropy20=Entropy20(scope="micro"), s2t=S2T(), alpha=0.3, lopti=Lopti(), beta=0.04
    ),
}


@dataclass(frozen=True)
class Pass:
    """One update pass. `scale` [N, T] is the sum of the terms' magnitudes, by which rounding errors are judged."""

    gradient: Array
    scale: Array
    entropy_gradient: Array
    loss: float
    loss_scale: float


def reference(method: Method, case: Case) -> list[Pass]:
    """The passes of a method at `case.current`, with the whole batch as one mini-batch."""
    rewards = shaped_rewards(method, case)
    rows = selected_rows(method, case)
    tokens = [(i, t) for i in rows for t in range(case.mask.shape[1]) if case.mask[i, t]]
    advantage = weighted_advantages(method, case, advantages(method, case, rewards), tokens)
    kept, counted = silenced(method, case, advantage, tokens)
    policy_share = {i: denominator_share(method, case, i, tokens, counted) for i in rows}
    penalty_share = {i: denominator_share(method, case, i, tokens, set(tokens)) for i in rows}
    passes = []
    for updated in update_passes(method, case, tokens):
        gradient, scale, entropy_gradient = (np.zeros(case.mask.shape) for _ in range(3))
        loss = loss_scale = 0.0
        for i, t in tokens:
            if (i, t) not in updated:
                continue
            if (i, t) in kept:
                share = policy_share[i]
                value, slope = surrogate(method, case, i, t, advantage[i, t])
                gradient[i, t] += share * slope
                scale[i, t] += abs(share * slope)
                loss -= share * value
                loss_scale += abs(share * value)
            if method.beta or method.entropy_bonus:
                share = penalty_share[i]
                value, slope, size = divergence(method, case.current[i, t], case.logp_ref[i, t])
                gradient[i, t] -= share * method.beta * slope
                scale[i, t] += share * method.beta * size
                entropy_gradient[i, t] += share * method.entropy_bonus
                bonus = method.entropy_bonus * case.current_entropy[i, t]
                loss += share * (method.beta * value - bonus)
                loss_scale += share * (method.beta * size + abs(bonus))
        passes.append(Pass(gradient, scale, entropy_gradient, loss, loss_scale))
    return passes


def shaped_rewards(method: Method, case: Case) -> list[float]:
    """DAPO eq. 13: 0 up to L - C, then falling linearly to -1 at L."""
    shaped = []
    for i in range(len(case.reward)):
        penalty = 0.0
        if method.soft_overlong:
            given = method.soft_overlong
            limit, cache = (case.max_length, case.max_length / 5) if isinstance(given, bool) else given
            length = int(case.mask[i].sum())
            if length > limit:
                penalty = -1.0
            elif length > limit - cache:
                penalty = ((limit - cache) - length) / cache
        shaped.append(float(case.reward[i]) + penalty)
    return shaped


def selected_rows(method: Method, case: Case) -> list[int]:
    """Dynamic sampling, 0 < #correct < G, judged on the raw correctness; overlong filtering."""
    rows = []
    for i in range(len(case.reward)):
        peers = [case.correct[j] for j in range(len(case.reward)) if case.group[j] == case.group[i]]
        uniform = all(other == peers[0] for other in peers)
        if (method.dynamic_sampling and uniform) or (method.overlong_filter and case.truncated[i]):
            continue
        rows.append(i)
    return rows


def advantages(method: Method, case: Case, rewards: list[float]) -> list[float]:
    """(R - mean) / (std + 1e-6), ddof 1, over all rows of the group; exactly 0 where the rewards are equal."""
    result = []
    for i in range(len(rewards)):
        peers = [rewards[j] for j in range(len(rewards)) if case.group[j] == case.group[i]]
        mean = sum(peers) / len(peers)
        deviation = math.sqrt(sum((other - mean) ** 2 for other in peers) / (len(peers) - 1))
        centred = 0.0 if all(other == peers[0] for other in peers) else rewards[i] - mean
        result.append(centred / (deviation + 1e-6) if method.over_deviation else centred)
    return result


def weighted_advantages(method: Method, case: Case, per_row: list[float], tokens: list[Token]) -> dict[Token, float]:
    """AR: A (alpha p_old + 1 - alpha). TIS: A min(p_old / p_sampler, cap). STARE: A times W or M on the surprising."""
    result = {}
    for i, t in tokens:
        weight = 1.0
        if method.alpha is not None:
            weight = method.alpha * math.exp(case.logp_old[i, t]) + (1 - method.alpha)
        if method.sampler_cap is not None:
            apart = max(-20.0, min(20.0, case.logp_old[i, t] - case.logp_sampler[i, t]))
            weight *= min(math.exp(apart), method.sampler_cap)
        result[i, t] = per_row[i] * weight
    stare = method.stare
    if stare is None:
        return result
    if stare.target is not None and tokens:
        entropy = sum(float(case.entropy_old[token]) for token in tokens) / len(tokens)
        if not entropy < stare.target:
            return result
    logp = case.logp_old if stare.source == "old" else case.current
    for pool in pools(case, tokens, stare.scope):
        for sign, factor in ((1, stare.amplify), (-1, stare.attenuate)):
            candidates = [(i, t) for i, t in pool if sign * per_row[i] > 0]
            if not candidates or stare.fraction == 0:
                continue
            count = min(len(candidates), max(1, int(len(candidates) * stare.fraction + 0.999999)))
            boundary = sorted((-float(logp[token]) for token in candidates), reverse=True)[count - 1]
            for token in candidates:
                if -logp[token] >= boundary:
                    result[token] *= factor
    return result


def silenced(
    method: Method, case: Case, advantage: dict[Token, float], tokens: list[Token]
) -> tuple[set[Token], set[Token]]:
    """20-Entropy's and STAPO's indicators: tokens whose policy term counts, and tokens in the denominator."""
    kept, counted = set(tokens), set(tokens)
    if method.entropy20:
        rule = method.entropy20
        entropy = case.entropy_old if rule.source == "old" else case.current_entropy
        for pool in pools(case, tokens, rule.scope):
            count = max(1, int(len(pool) * rule.fraction + 0.9999))
            boundary = sorted((float(entropy[token]) for token in pool), reverse=True)[count - 1]
            out = {token for token in pool if entropy[token] < boundary}
            kept -= out
            counted -= out if rule.leaves_denominator else set()
    if method.s2t:
        mask = method.s2t
        logp = case.logp_old if mask.source == "old" else case.current
        entropy = case.entropy_old if mask.source == "old" else case.current_entropy
        for pool in pools(case, tokens, mask.scope):
            rare = [token for token in pool if advantage[token] > 0 and logp[token] < math.log(mask.tau)]
            if not rare:
                continue
            boundary = quantile([float(entropy[token]) for token in rare], mask.q)
            out = {token for token in rare if entropy[token] < boundary}
            kept -= out
            counted -= out if mask.leaves_denominator else set()
    return kept, counted


def pools(case: Case, tokens: list[Token], scope: str) -> Iterator[list[Token]]:
    """The tokens of the whole batch, or those of each micro-batch; empty pools are left out."""
    numbers = sorted({int(case.micro_batch[i]) for i, _ in tokens}) if scope == "micro" else [None]
    for number in numbers:
        pool = [token for token in tokens if number is None or case.micro_batch[token[0]] == number]
        if pool:
            yield pool


def quantile(values: list[float], q: str) -> float:
    """The q-quantile, interpolated linearly, its position calculated exactly."""
    ordered = sorted(values)
    position = Fraction(q) * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + float(position - below) * (ordered[above] - ordered[below])


def update_passes(method: Method, case: Case, tokens: list[Token]) -> list[set[Token]]:
    """The tokens that each update pass trains."""
    if method.lopti is None:
        return [set(tokens)]
    boundary = method.lopti.eta
    if method.lopti.portion is not None and tokens:
        boundary = quantile([math.exp(case.logp_old[token]) for token in tokens], method.lopti.portion)
    low = {token for token in tokens if math.exp(case.logp_old[token]) < boundary}
    high = set(tokens) - low
    return [high, low] if method.lopti.high_first else [low, high]


def denominator_share(method: Method, case: Case, i: int, tokens: list[Token], counted: set[Token]) -> float:
    """What the loss of a token of row i is multiplied by before everything is summed."""
    rows = {j for j, _ in tokens}
    if method.mean == "response":
        return 1 / max(1, len(rows)) / max(1, sum(1 for j, _ in counted if j == i))
    if method.mean == "prompt":
        prompts = {int(case.group[j]) for j in rows}
        return 1 / max(1, len(prompts)) / max(1, sum(1 for j, _ in counted if case.group[j] == case.group[i]))
    if method.mean == "micro":
        peers = {j for j in rows if case.micro_batch[j] == case.micro_batch[i]}
        return len(peers) / max(1, len(rows)) / max(1, sum(1 for j, _ in counted if j in peers))
    return 1 / max(1, len(counted))


def surrogate(method: Method, case: Case, i: int, t: int, advantage: float) -> tuple[float, float]:
    """min(r A, clip(r) A), at least c A where A < 0; and its derivative by log pi."""
    difference = float(case.current[i, t] - case.logp_old[i, t])
    ratio = math.exp(min(max(difference, -20.0), 20.0))
    clipped = min(max(ratio, 1 - method.low), 1 + method.high)
    value, slope = ratio * advantage, ratio * advantage
    if clipped * advantage < value:
        value, slope = clipped * advantage, 0.0
    if advantage < 0 and method.cap * advantage > value:
        value, slope = method.cap * advantage, 0.0
    return value, slope if abs(difference) <= 20.0 else 0.0


def divergence(method: Method, logp: float, logp_ref: float) -> tuple[float, float, float]:
    """The KL estimate of a token, its derivative by log pi, and the magnitude of the terms of both."""
    x = float(logp_ref - logp)
    inside = True
    if method.clamp is not None:
        inside = abs(x) <= method.clamp
        x = min(max(x, -method.clamp), method.clamp)
    if method.estimator == "k1":
        value, slope = -x, 1.0
    elif method.estimator == "k2":
        value, slope = x * x / 2, -x
    else:
        value, slope = math.exp(x) - x - 1, 1 - math.exp(x)
    if method.clamp is not None and abs(value) > 10:
        value, inside = math.copysign(10.0, value), False
    size = math.exp(x) + abs(x) + 1 if method.estimator == "k3" else abs(value) + abs(slope)
    return value, slope if inside else 0.0, size
