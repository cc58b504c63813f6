"""How a method is written down a second time: float64 numpy functions, one for each stage, that share no code with the
package.

`reference(method, case)` gives, for each update pass, the coefficient with which grad log pi(y_it) enters the gradient
of the objective. The functions of parts that several methods have are in `parts`, a method's own beside its equation.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from typing import Any

import numpy as np

from tests.objectives.batches import Array, Case, Flags, beyond_the_mask

Share = Callable[[Case, Flags], Array]
"""Tokens in the denominators [N, T] -> what each token's loss is multiplied by before everything is summed [N, T]."""

Sized = tuple[Array, Array]
"""Values and their size, by which their rounding is judged; of a ratio its derivative by the log-prob."""
Terms = tuple[Array, ...]
"""The objective of each token, its derivative by the log-prob, and the size of its terms, [N, T] each."""
Kept = tuple[Flags, bool]
"""[N, T] tokens whose policy term counts, and whether the others leave the denominator."""


@dataclass(frozen=True)
class Term:
    """A penalty, [N, T] each: its part of the loss, the derivatives by log-prob and by entropy, the terms' size."""

    loss: Array
    by_logp: Array
    by_entropy: Array
    size: Array


@dataclass(frozen=True)
class Reference:
    """A method as functions of a batch, stage by stage.

    `case.mask` are all tokens for the first two stages, those of groups that are left for the third, and then those of
    the selected responses. Advantages [N] come with their size, by which their rounding is judged, as does all else.
    """

    advantage: Callable[[Case, Array], tuple[Array, Array]]
    """Rewards [N] or [N, T] -> advantages and their size, likewise."""
    ratio: Callable[[Case], tuple[Array, Array]]
    """[N, T] ratio, and its derivative by the log-prob."""
    surrogate: Callable[[Case, Array, Array, Array], tuple[Array, Array, Array]]
    """Ratio, its derivative, advantage [N, T] -> objective of each token, derivative by the log-prob, its size."""
    share: Share
    rewards: Sequence[Callable[[Case], Array]] = ()
    """What is added to the rewards, [N] or [N, T]."""
    selects: Sequence[Callable[[Case], Flags]] = ()
    """[N] rows that are trained on."""
    late_selects: Sequence[Callable[[Case, Array], Flags]] = ()
    """Advantages [N, T] before weights -> [N, T] tokens that are trained on."""
    weights: Sequence[Callable[[Case, Array], Array]] = ()
    """Advantages [N, T] -> what they are multiplied by."""
    masks: Sequence[Callable[[Case, Array], tuple[Flags, bool]]] = ()
    """Advantages [N, T] -> tokens whose policy term counts, and whether the others leave the denominator."""
    penalties: Sequence[Callable[[Case, Array, Share], Term]] = ()
    additions: Sequence[Callable[[Case], tuple[Array, Array]]] = ()
    """What is added to advantages before they are multiplied, and its size, [N, T] each."""
    observations: Sequence[Callable[[Case, Flags], Term]] = ()
    """The whole batch and the rows [N] that are trained on -> penalties on what the environment wrote."""
    passes: Callable[[Case], Sequence[Flags]] = lambda case: [case.mask]
    """The tokens that each update pass trains."""
    stops_gradients: bool = False
    """Whether something in it is not differentiated, so that its gradient is not that of its value."""


@dataclass(frozen=True)
class Pass:
    """One update pass. `scale` [N, T] is the sum of the terms' magnitudes, by which rounding errors are judged."""

    gradient: Array
    scale: Array
    entropy_gradient: Array
    loss: float
    loss_scale: float


def reference(method: Reference, case: Case) -> list[Pass]:
    """The passes of a method at `case.current`, with the whole batch as one mini-batch."""
    whole, case = case, beyond_the_mask(case, 0.0)
    reward = case.reward
    for shaping in method.rewards:
        added = shaping(case)
        reward = reward + added if added.ndim == reward.ndim else per_token(case, reward) + per_token(case, added)
    selected = np.ones(len(reward), dtype=bool)
    for select in method.selects:
        selected &= select(case)
    left = np.isin(case.group, case.group[selected])
    values = method.advantage(replace(case, mask=case.mask & left[:, None]), reward)
    plain, size = (per_token(case, value) for value in values)
    case = replace(case, mask=case.mask & selected[:, None])
    for select in method.late_selects:
        case = replace(case, mask=case.mask & select(case, plain))
    for addition in method.additions:
        plain, size = (before + added for before, added in zip((plain, size), addition(case), strict=True))
    weight = np.ones(case.mask.shape)
    for weigh in method.weights:
        weight = weight * weigh(case, plain)
    advantage, size = plain * weight, size * abs(weight)

    kept, counted = case.mask, case.mask
    for mask in method.masks:
        keeps, leaves_denominator = mask(case, advantage)
        kept = kept & keeps
        counted = counted & keeps if leaves_denominator else counted
    ratio, slope = method.ratio(case)
    objective, by_logp, terms_size = method.surrogate(case, ratio, slope, advantage)
    share = method.share(case, counted) * kept
    zero = advantage == 0
    rounding = np.where(zero, 1.0, size / np.where(zero, 1.0, abs(advantage)))
    scale = share * (terms_size * rounding + zero * ratio * size)
    loss_scale = share * (abs(objective) * rounding + zero * ratio * size)
    terms = [penalty(case, advantage, method.share) for penalty in method.penalties]
    observed = [observation(whole, selected) for observation in method.observations]
    return [
        Pass(
            gradient=tokens * (share * by_logp - sum(term.by_logp for term in terms))
            - sum(term.by_logp for term in observed),
            scale=tokens * (scale + sum(term.size for term in terms)) + sum(term.size for term in observed),
            entropy_gradient=tokens * -sum((term.by_entropy for term in terms), start=np.zeros(case.mask.shape)),
            loss=float((tokens * (sum(term.loss for term in terms) - share * objective)).sum())
            + sum(float(term.loss.sum()) for term in observed),
            loss_scale=float((tokens * (loss_scale + sum(term.size + abs(term.loss) for term in terms))).sum())
            + sum(float(term.size.sum() + abs(term.loss).sum()) for term in observed),
        )
        for tokens in (updated & case.mask for updated in method.passes(case))
    ]


def per_token(case: Case, values: Array) -> Array:
    """[N] -> [N, T]."""
    return values if values.ndim == 2 else np.repeat(values[:, None], case.mask.shape[1], axis=1)


def groups(case: Case) -> Iterator[Flags]:
    """[N] the rows of each prompt."""
    for name in sorted(set(case.group.tolist())):
        yield case.group == name


def pools(case: Case, tokens: Flags, scope: str) -> Iterator[Flags]:
    """[N, T] these tokens of the whole batch, or those of each micro-batch; empty pools are left out."""
    numbers = sorted(set(case.micro_batch.tolist())) if scope == "micro" else [None]
    for number in numbers:
        pool = tokens if number is None else tokens & (case.micro_batch == number)[:, None]
        if pool.any():
            yield pool


def stage(function: Callable[..., Any]) -> Callable[..., Callable[..., Any]]:
    """The function of a stage with its keyword-only settings given first, in their order or by name."""
    names = [item.name for item in signature(function).parameters.values() if item.kind is item.KEYWORD_ONLY]

    def with_settings(*values: Any, **settings: Any) -> Callable[..., Any]:
        return partial(function, **dict(zip(names, values, strict=False)), **settings)

    return with_settings
