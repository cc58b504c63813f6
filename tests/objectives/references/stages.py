"""How parts are written down a second time: float64 numpy functions that share no code with the package.

A function has the name of its part, its settings (each by name, or all as `at`), and what its stage gives it.
`composed` puts those of an expression's parts together; `reference` says for each update pass with which coefficient
grad log pi(y_it) enters the gradient of the objective.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from objectives import Stage, parse
from tests.objectives.batches import Array, Case, Flags, beyond_the_mask

Share = Callable[[Case, Flags], Array]
"""Tokens in the denominators [N, T] -> what each token's loss is multiplied by before everything is summed [N, T]."""
Sized = tuple[Array, Array]
"""Values and their size, by which their rounding is judged; of a ratio its derivative by the log-prob."""
Terms = tuple[Array, ...]
"""The objective of each token, its derivative by the log-prob, and the size of its terms, [N, T] each."""
Kept = tuple[Flags, bool]
"""[N, T] tokens whose policy term counts, and whether the others leave the denominator."""
Function = Callable[..., Any]


@dataclass(frozen=True)
class Limits:
    """The bounds of the ratio, 1 - low and 1 + high, the cap for A < 0, and the ratio that they bound [N, T]."""

    low: Any = math.inf
    high: Any = math.inf
    cap: float = math.inf
    ratio: Any = None


@dataclass(frozen=True)
class Term:
    """A penalty, [N, T] each: its part of the loss, the derivatives by log-prob and by entropy, the terms' size."""

    loss: Array
    by_logp: Array
    by_entropy: Array
    size: Array


@dataclass(frozen=True)
class Pass:
    """One update pass. `scale` [N, T] is the sum of the terms' magnitudes, by which rounding errors are judged."""

    gradient: Array
    scale: Array
    entropy_gradient: Array
    loss: float
    loss_scale: float


# ---- the functions of the parts --------------------------------------------------------------------------------------

FUNCTIONS: dict[str, Function] = {}
"""Part -> its function."""
ADDED = {"teacher_advantage", "turn_advantage", "confidence_shift", "entropy_advantage", "position_bonus"}
"""Weights that are added to the advantage."""
BOUNDS = {"clip_higher", "dual_clip", "balanced_clip", "dynamic_clip", "heterogeneous_clip", "second_moment_clip"}
"""Parts that set the bounds of another's surrogate."""
CURRENT = {"delight", "future_kl", "zone_reweighting"}
"""Weights that read the current policy; others do where their `source` is current or their `scope` the micro-batch."""
LATE = ("kl_reward", "live_only", "observation_nll")
"""Parts that come behind their stage: behind selection, behind advantages, and on what an environment wrote."""
DETACHED = {
    *("sequence_ratio", "geometric_ratio", "kalman_ratio", "prefix_min_ratio", "sampler_ratio", "reinforce", "cispo"),
    *("divergence_clip", "flipped_clip", "gradient_preserving_clip", "unbounded_positive", "banded_reinforce", "taper"),
    *("gamma_gate", "implicit_negative", "group_contrast", "balanced_clip", "second_moment_clip", "second_moment_mask"),
    *("gated_distillation", "teacher_advantage", "evidence_reweighting", *CURRENT),
}
"""Parts with something that is not differentiated, so that the gradient is not that of the value."""


def part(function: Function) -> Function:
    """Registers the function of the part of its name."""
    FUNCTIONS[function.__name__] = function
    return function


@dataclass(frozen=True)
class Reference:
    """An expression as functions of a batch, stage by stage, with their settings."""

    stages: dict[Stage, list[Function]] = field(default_factory=lambda: {stage: [] for stage in Stage})
    weights: list[tuple[bool, bool, Function]] = field(default_factory=list)
    """Whether each reads the current policy, whether it is a factor, and the function; in the order of work."""
    bounds: list[Function] = field(default_factory=list)
    limits: list[Limits] = field(default_factory=list)
    """The surrogate's own."""
    late: dict[str, Function | None] = field(default_factory=lambda: dict.fromkeys(LATE))
    detached: set[str] = field(default_factory=set)

    def the(self, stage: Stage) -> Function:
        """The function of a stage of one part."""
        (function,) = self.stages[stage]
        return function


def composed(expression: str) -> Reference:
    """The functions of an expression's parts, as they are set now."""
    found = Reference()
    for item in parse(expression).parts:
        settings = {it.name: getattr(item, it.name) for it in fields(item)}
        function = FUNCTIONS[item.name]
        takes_all = "at" in inspect.signature(function).parameters
        function = partial(function, at=SimpleNamespace(**settings)) if takes_all else partial(function, **settings)
        if item.name in BOUNDS:
            found.bounds.append(function)
        elif item.name in found.late:
            found.late[item.name] = function
        elif item.stage == Stage.WEIGHT:
            is_current = settings.get("source") == "current" or settings.get("scope") == "microbatch"
            found.weights.append((is_current or item.name in CURRENT, item.name not in ADDED, function))
        else:
            found.stages[item.stage].append(function)
        if item.stage == Stage.SURROGATE and item.name not in BOUNDS:
            low = math.inf if item.name == "taper" else settings.get("low", math.inf)  # its bounds are a weight's
            found.limits.append(Limits(low, low))
        found.detached.update({item.name} & DETACHED)
    found.weights.sort(key=lambda weight: weight[:2])
    return found


def reference(method: Reference, case: Case) -> list[Pass]:
    """The passes of a method at `case.current`, with the whole batch as one mini-batch.

    The mask has all tokens for rewards and selection, those of groups that are left for the advantage, and then those
    of the selected responses.
    """
    whole, case = case, beyond_the_mask(case, 0.0)
    reward = case.reward
    for shaping in method.stages[Stage.REWARD]:
        reward = reward + shaping(case)
    selected = np.ones(len(reward), dtype=bool)
    for select in method.stages[Stage.SELECT]:
        selected &= select(replace(case, reward=reward))
    if shaping := method.late["kl_reward"]:
        added = shaping(case)
        reward = reward + added if added.ndim == reward.ndim else per_token(case, reward) + per_token(case, added)
    left = np.isin(case.group, case.group[selected])
    values = method.the(Stage.ADVANTAGE)(replace(case, mask=case.mask & left[:, None]), reward)
    case = replace(case, mask=case.mask & selected[:, None])
    plain, size = (per_token(case, value) for value in values)
    if live := method.late["live_only"]:
        case = replace(case, mask=case.mask & live(case, plain))
    advantage, size = weighted(method, case, plain, size)

    ratio, slope = method.the(Stage.RATIO)(case, advantage)
    (limits,) = method.limits
    for change in method.bounds:
        limits = change(case, ratio, advantage, limits)
    limits = replace(limits, ratio=ratio)
    kept, counted = case.mask, case.mask
    for mask in method.stages[Stage.MASK]:
        keeps, leaves_denominator = mask(case, advantage, limits)
        kept = kept & keeps
        counted = counted & keeps if leaves_denominator else counted
    objective, by_logp, terms_size = method.the(Stage.SURROGATE)(case, ratio, slope, advantage, limits)
    aggregate = method.the(Stage.AGGREGATE)
    share = aggregate(case, counted) * kept
    zero = advantage == 0
    rounding = np.where(zero, 1.0, size / np.where(zero, 1.0, abs(advantage)))
    scale = share * (terms_size * rounding + zero * ratio * size)
    loss_scale = share * (abs(objective) * rounding + zero * ratio * size)
    terms = [penalty(case, advantage, aggregate) for penalty in method.stages[Stage.PENALTY]]
    observation = method.late["observation_nll"]
    observed = [observation(whole, selected)] if observation else []
    passes = []
    for updated in method.the(Stage.SCHEDULE)(case):
        tokens = updated & case.mask
        added = [(tokens, term) for term in terms] + [(updated, term) for term in observed]
        passes.append(
            Pass(
                gradient=tokens * share * by_logp - sum(where * term.by_logp for where, term in added),
                scale=tokens * scale + sum(where * term.size for where, term in added),
                entropy_gradient=-sum((where * term.by_entropy for where, term in added), np.zeros(case.mask.shape)),
                loss=float(
                    sum((where * term.loss).sum() for where, term in added) - (tokens * share * objective).sum()
                ),
                loss_scale=float(
                    (tokens * loss_scale).sum()
                    + sum((where * (term.size + abs(term.loss))).sum() for where, term in added)
                ),
            )
        )
    return passes


def weighted(method: Reference, case: Case, advantage: Array, size: Array) -> Sized:
    """Advantage and size after the weights: those of the rollouts, then those of the current policy, summands first."""
    for current in (False, True):
        before = advantage
        for is_current, is_factor, weigh in method.weights:
            if is_current == current and is_factor:
                factor = weigh(case, before)
                advantage, size = advantage * factor, size * abs(factor)
            elif is_current == current:
                added, rounding = weigh(case, before)
                advantage, size = advantage + added, size + rounding
    return advantage, size


# ---- what many share -------------------------------------------------------------------------------------------------


def per_token(case: Case, values: Array) -> Array:
    """[N] -> [N, T]."""
    return values if values.ndim == 2 else np.repeat(values[:, None], case.mask.shape[1], axis=1)


def groups(case: Case) -> Iterator[Flags]:
    """[N] the rows of each prompt."""
    for name in sorted(set(case.group.tolist())):
        yield case.group == name


def pools(case: Case, tokens: Flags, scope: str) -> Iterator[Flags]:
    """[N, T] these tokens of the whole batch, or those of each micro-batch; empty pools are left out."""
    numbers: Sequence[int | None] = sorted(set(case.micro_batch.tolist())) if scope == "microbatch" else [None]
    for number in numbers:
        pool = tokens if number is None else tokens & (case.micro_batch == number)[:, None]
        if pool.any():
            yield pool


def quantile(values: Array, q: float | str) -> float:
    """The q-quantile, interpolated linearly, its position calculated exactly."""
    ordered = sorted(values.tolist())
    position = Fraction(str(q)) * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + float(position - below) * (ordered[above] - ordered[below])


def log_change(case: Case) -> Array:
    """[N, T] log pi - log pi_old within [-20, 20]."""
    return np.clip(case.current - case.logp_old, -20, 20)


def empty(case: Case) -> list[Array]:
    """Three times [N, T] zeros."""
    return [np.zeros(case.mask.shape) for _ in range(3)]
