"""The laws that every objective of the zoo obeys, as functions of its expression that raise AssertionError.

Each looks at an extreme batch in float64, token by token; those about how a batch is held look at a mild one in float32
as well, response by response.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from objectives import Objective, ObjectiveError, Penalty, TokenBatch, Writer, parse
from tests.objectives.batches import (
    Case,
    beyond_the_mask,
    random_case,
    token_batch,
    with_holes,
    without_heard,
    without_holes,
)
from tests.objectives.comparison import Update, at_current, evaluate, same

SEEDS = (1, 2)
DTYPES = (torch.float64, torch.float32)


@cache
def batch_of(seed: int, dtype: torch.dtype) -> TokenBatch:
    """In float64 an extreme batch, judged token by token; in float32 a mild one, judged response by response."""
    return token_batch(random_case(seed, extreme=dtype == torch.float64, moved=True), dtype)


@lru_cache(maxsize=64)
def whole(expression: str, seed: int, dtype: torch.dtype) -> list[Update]:
    """The updates on that batch as it is."""
    return evaluate(parse(expression), batch_of(seed, dtype))


def agree(first: Sequence[Update], second: Sequence[Update]) -> bool:
    """Whether gradients and losses are equal to 1e-10 relative in float64, to 1e-6 in float32."""
    tolerance = 1e-10 if second[0].gradient.dtype == torch.float64 else 1e-6
    return len(first) == len(second) and all(
        _close(a.gradient, b.gradient, tolerance)
        and _close(a.entropy_gradient, b.entropy_gradient, tolerance)
        and math.isclose(a.loss, b.loss, rel_tol=10 * tolerance, abs_tol=10 * tolerance)
        for a, b in zip(first, second, strict=True)
    )


def _close(first: Tensor, second: Tensor, tolerance: float) -> bool:
    scale = second.abs()
    if second.dtype == torch.float32:
        scale = scale.amax(1, keepdim=True) + scale.amax() / 10
    return bool(((first - second).abs() <= tolerance * scale).all())


def of_tokens(updates: Sequence[Update], index: Any) -> list[Update]:
    """The updates with some of their tokens, or in another order."""
    return [Update(up.gradient[index], up.entropy_gradient[index], up.loss) for up in updates]


def of_each(expressions: Iterable[str], law: Callable[[str], object]) -> None:
    """The law holds for each expression; a failure names it."""
    for expression in expressions:
        try:
            law(expression)
        except (AssertionError, ObjectiveError) as error:
            raise AssertionError(f"{expression}: {error}") from error


def without_penalties(expression: str) -> Objective:
    """The objective without the terms that are added to the loss."""
    return Objective(tuple(part for part in parse(expression).parts if not isinstance(part, Penalty)))


def cutting_and_trimming_micro_batches_changes_nothing(expression: str) -> None:
    for dtype in DTYPES:
        for seed in SEEDS:
            batch = batch_of(seed, dtype)
            for pieces in (2, 5):
                order = torch.randperm(len(batch.mask), generator=torch.Generator().manual_seed(seed))
                found = evaluate(parse(expression), batch, order.tensor_split(pieces), trim=True)
                assert agree(found, whole(expression, seed, dtype))


def the_order_of_rows_changes_nothing(expression: str) -> None:
    for dtype in DTYPES:
        for seed in SEEDS:
            batch = batch_of(seed, dtype)
            order = torch.randperm(len(batch.mask), generator=torch.Generator().manual_seed(seed))
            found = of_tokens(evaluate(parse(expression), batch.rows(order)), order.argsort())
            assert agree(found, whole(expression, seed, dtype))


def the_amount_of_padding_changes_nothing(expression: str) -> None:
    for dtype in DTYPES:
        for seed in SEEDS:
            batch = batch_of(seed, dtype)
            width = batch.mask.shape[1]
            found = evaluate(parse(expression), padded_with_nan(batch, 5))
            assert all((update.gradient[:, width:] == 0).all() for update in found)
            assert agree(of_tokens(found, (slice(None), slice(width))), whole(expression, seed, dtype))


def padded_with_nan(batch: TokenBatch, more: int) -> TokenBatch:
    """The batch with more positions, in which every number is NaN."""
    fields = {
        name: torch.nn.functional.pad(field, (0, more), value=math.nan if field.is_floating_point() else 0)
        for name, field in batch.token_fields().items()
    }
    return replace(batch, **fields)


def values_outside_the_mask_have_no_influence_and_no_gradient(expression: str) -> None:
    objective = parse(expression)
    for seed in (1, 3):
        case = with_holes(random_case(seed, moved=True), np.random.default_rng(seed))
        unread = beyond_what_is_read(objective, case)
        clean = evaluate(objective, token_batch(beyond_the_mask(case, 0.0, observed=not objective.learns_observations)))
        for garbage in (math.nan, 1e300):
            spoiled = beyond_the_mask(case, garbage, observed=not objective.learns_observations)
            dirty = evaluate(objective, token_batch(spoiled))
            assert same(clean, dirty)
            for update in dirty:
                assert (update.gradient[unread] == 0).all()
                assert (update.entropy_gradient[~torch.from_numpy(case.mask)] == 0).all()


def beyond_what_is_read(objective: Objective, case: Case) -> Tensor:
    """[N, T] bool: what is not in the mask, less what the environment wrote where a part declares that it learns it."""
    is_observation = torch.from_numpy(case.writer == Writer.ENVIRONMENT) & objective.learns_observations
    return ~torch.from_numpy(case.mask) & ~is_observation


def holes_in_the_mask_are_as_good_as_tokens_that_are_not_there(expression: str) -> None:
    objective = parse(expression)
    for seed in SEEDS:
        case = with_holes(random_case(seed, moved=True), np.random.default_rng(seed))
        closed = without_holes(case)
        expected, found = (evaluate(objective, token_batch(one)) for one in (closed, case))
        if objective.learns_observations:  # what was written before the policy's first token is none
            expected, found = ([replace(update, loss=0.0) for update in updates] for updates in (expected, found))
        tokens, left = (torch.from_numpy(one.mask).nonzero(as_tuple=True) for one in (case, closed))
        assert agree(of_tokens(found, tokens), of_tokens(expected, left))


def the_number_of_tokens_that_an_environment_wrote_changes_nothing(expression: str) -> None:
    objective = parse(expression)
    for seed in SEEDS:
        draw = np.random.default_rng(seed)
        case = with_holes(random_case(seed, moved=True), draw)
        found = evaluate(objective, token_batch(case))
        for dropped in (np.ones_like(case.mask), draw.random(case.mask.shape) < 0.5):
            fewer = without_heard(case, dropped)
            expected = evaluate(objective, token_batch(fewer))
            if objective.learns_observations:  # the mean over other observations
                expected, found = ([replace(it, loss=0.0) for it in updates] for updates in (expected, found))
            tokens, left = (torch.from_numpy(one.mask).nonzero(as_tuple=True) for one in (case, fewer))
            assert agree(of_tokens(found, tokens), of_tokens(expected, left))


def inactive_rows_have_no_gradient(expression: str) -> None:
    """The trainer leaves inactive rows out of the forward pass."""
    objective = parse(expression)
    for seed in range(3):
        batch = at_current(token_batch(random_case(seed)))
        prepared = objective.passes(objective.prepare(batch))
        for update, part in zip(evaluate(objective, batch), prepared, strict=True):
            idle = ~objective.plan(part).active
            assert (update.gradient[idle] == 0).all()
            assert (update.entropy_gradient[idle] == 0).all()


def what_is_touched_is_in_the_responses_and_the_same_in_any_cut(expression: str) -> None:
    objective = parse(expression)
    for seed in range(3):
        batch = at_current(token_batch(random_case(seed)))
        plan = objective.plan(objective.passes(objective.prepare(batch))[-1])
        touched = objective.touched(plan, slice(None), plan.batch.logp)
        assert set(touched) <= {part.name for part in objective.parts}
        assert all(mask.dtype == torch.bool and not (mask & ~batch.mask).any() for mask in touched.values())
        for rows in torch.arange(len(batch.mask)).split(3):
            width = batch.mask.shape[1] - 1 if not plan.read[rows, -1].any() else batch.mask.shape[1]
            piece = objective.touched(plan, rows, plan.batch.logp[rows][:, :width])
            assert all(torch.equal(mask, touched[name][rows][:, :width]) for name, mask in piece.items())


def no_gradient_is_against_its_advantage(expression: str) -> None:
    objective = without_penalties(expression)
    for seed in range(3):
        batch = at_current(token_batch(random_case(seed)))
        for update in objective.passes(objective.prepare(batch)):
            plan = objective.plan(update)
            if plan.follows_advantage:
                assert (objective.token_gradient(plan) * plan.batch.advantage >= 0).all()


LAWS: dict[str, Callable[[str], None]] = {
    law.__name__: law
    for law in (
        cutting_and_trimming_micro_batches_changes_nothing,
        the_order_of_rows_changes_nothing,
        the_amount_of_padding_changes_nothing,
        values_outside_the_mask_have_no_influence_and_no_gradient,
        holes_in_the_mask_are_as_good_as_tokens_that_are_not_there,
        the_number_of_tokens_that_an_environment_wrote_changes_nothing,
        inactive_rows_have_no_gradient,
        what_is_touched_is_in_the_responses_and_the_same_in_any_cut,
        no_gradient_is_against_its_advantage,
    )
}
