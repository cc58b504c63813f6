"""What an objective did to a token is said once: gradient, equation, microscope, metrics and verl's columns agree."""

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from torch import Tensor

from objectives import (
    Action,
    Loop,
    Objective,
    Plan,
    Prepared,
    Step,
    TokenBatch,
    Trace,
    parse,
)
from objectives.adapters.columns import batch_of, columns_of
from rlzoo.inspecting.view import look
from rlzoo.training.rows import StepMetrics
from tests.objectives.batches import random_case, token_batch
from tests.objectives.zoo_sample import PARTS, RECIPES, VARIANTS
from tests.thinned import thinned

EXPRESSIONS = sorted({*RECIPES, *VARIANTS, *PARTS})
STATED = ["stare(source=current,adaptive=true)", "stare(scope=microbatch,source=current)"]


def step_of(objective: Objective, seed: int = 0) -> Step:
    """The rollouts of a step, float64, of a policy that has moved."""
    return Loop(objective, moved=True).begin(rollouts(seed))


def rollouts(seed: int) -> TokenBatch:
    """Ragged ones, some masked out."""
    return token_batch(random_case(seed, extreme=False, moved=True))


def plans(step: Step) -> list[Plan]:
    """One for each pass."""
    return [step.plan(number) for number in range(len(step.rows))]


# ---- the trace and the gradient ------------------------------------------------------------------------------------


def multiplied_out(trace: Trace, like: Tensor) -> Tensor:
    """[N, T] the advantage, entry by entry."""
    advantage, tokens = torch.zeros_like(like), torch.zeros_like(like)
    for entry in trace:
        if entry.action is Action.TOKENS:
            tokens = entry.value
        elif entry.action is Action.ADVANTAGE:
            advantage = (
                entry.value.clone() if entry.value.dim() == 2 else entry.value[:, None].expand(like.shape).clone()
            )
        elif entry.action is Action.ADD:
            advantage[tokens] += entry.value[tokens]
        elif entry.action is Action.WEIGH:
            advantage[tokens] *= entry.value[tokens]
    return torch.where(tokens, advantage, 0.0)


def the_account_multiplied_out_is_what_the_gradient_has(objective: Objective) -> None:
    for plan in plans(step_of(objective)):
        trace = plan.batch.trace
        advantage = multiplied_out(trace, plan.batch.advantage)
        torch.testing.assert_close(advantage, plan.batch.advantage, rtol=1e-14, atol=0)
        assert torch.equal(trace.of(Action.TOKENS)[-1].value, plan.batch.mask)
        coefficients = {entry.part: entry.value for entry in trace if entry.action in PENALISED}
        written = {entry.part: plan.read for entry in trace.of(Action.OBSERVATION)}
        updated: dict[str, Tensor] = {"policy": plan.batch.mask, "penalty": torch.ones_like(plan.batch.mask)}
        for entry in trace.of(Action.PASS):
            updated[entry.name] = updated[entry.name] & entry.value
        for entry in trace.of(Action.MASK):
            updated["policy"] = updated["policy"] & entry.value
        (policy,) = trace.of(Action.COEFFICIENT)
        again = replace(
            plan,
            batch=plan.batch.with_fields(advantage=advantage),
            policy_coefficient=policy.value * updated["policy"],
            penalty_coefficients={
                name: value * (updated["penalty"] & written.get(name, plan.batch.mask))
                for name, value in coefficients.items()
            },
        )
        torch.testing.assert_close(
            objective.token_gradient(again), objective.token_gradient(plan), rtol=1e-12, atol=1e-15
        )


PENALISED = (Action.PENALTY, Action.CHOICE, Action.OBSERVATION)


# ---- the views -------------------------------------------------------------------------------------------------------


def the_microscope_shows_the_account(objective: Objective) -> None:
    seen, batch = look(objective, rollouts(0)), rollouts(0)
    step = step_of(objective)
    gradient = torch.zeros_like(seen.gradient)
    for plan in plans(step):
        trace, mask = plan.batch.trace, plan.batch.mask
        weighed = [entry for entry in trace if entry.action in (Action.ADD, Action.WEIGH)]
        assert list(seen.weights) == [entry.part for entry in weighed]
        assert seen.summands == {entry.part for entry in weighed if entry.action is Action.ADD}
        for entry in weighed:
            assert torch.equal(seen.weights[entry.part], torch.where(mask, entry.value, 0.0))
        assert torch.equal(seen.advantage, multiplied_out(trace, gradient))
        for entry in trace.of(Action.MASK):
            assert torch.equal(seen.masked[entry.part], mask & ~entry.value)
        for entry in trace.of(Action.SELECT):
            left_out = batch.mask & ~(entry.value if entry.value.dim() == 2 else entry.value[:, None])
            assert torch.equal(seen.left_out[entry.part], left_out.any(1))
        gradient += objective.token_gradient(plan)
    again = torch.where(seen.tokens, seen.unweighted, 0.0)
    for name, values in seen.weights.items():
        again = again + values if name in seen.summands else again * values
    kept = step.prepared.mask
    torch.testing.assert_close(again[kept], seen.advantage[kept], rtol=1e-14, atol=0)
    assert torch.equal(seen.gradient, gradient)


def the_equation_prints_the_order_of_the_account(objective: Objective) -> None:
    formulas = {part.name: part.formula() for part in objective.parts}
    trace = plans(step_of(objective))[0].batch.trace
    places = [
        objective.equation.index(f"; {formulas[entry.part]}")
        for entry in trace
        if entry.action in (Action.ADVANTAGE, Action.ADD, Action.WEIGH)
    ]
    assert places == sorted(places)


def verls_columns_change_nothing(objective: Objective) -> None:
    step = step_of(objective)
    columns = columns_of(objective, step.passes)
    filled = {name: with_filler(name, values) for name, values in columns.items()}
    current = rollouts(0)
    for number in range(len(step.rows)):
        batch = batch_of(filled, number, step.prepared.max_length)
        assert batch.state == step.prepared.state == step.passes[number].state
        same(batch.trace, step.passes[number].trace)
        wanted, made = step.plan(number), step.loop.plan(number, with_current(batch, current))
        same(made.batch.trace, wanted.batch.trace)
        assert torch.equal(made.policy_coefficient, wanted.policy_coefficient)
        assert torch.equal(made.batch.advantage, wanted.batch.advantage)
        assert torch.equal(objective.token_gradient(made), objective.token_gradient(wanted))


def with_current(batch: Prepared, rollouts: TokenBatch) -> Prepared:
    """What a worker calculates itself."""
    return batch.with_fields(logp=rollouts.logp, entropy=rollouts.entropy, micro_batch=rollouts.micro_batch)


def with_filler(name: str, values: Tensor) -> Tensor:
    """The column with a row more that only fills up."""
    return torch.cat([values, torch.full_like(values[:1], -1 if name == "zoo_0_group" else 0)])


def same(one: Trace, other: Trace) -> None:
    """The same entries in the same order."""
    names = [[(entry.part, entry.action, entry.name) for entry in trace] for trace in (one, other)]
    assert names[0] == names[1]
    for first, second in zip(one, other, strict=True):
        assert torch.equal(first.value, second.value)


def the_metrics_of_training_count_the_account(objective: Objective) -> None:
    batch, accelerator = rollouts(0), Accelerator(cpu=True)
    sampled: Any = SimpleNamespace(mask=batch.mask, logp=batch.logp_old, entropy=batch.entropy_old)
    for plan in plans(step_of(objective)):
        metrics, every = StepMetrics(objective, sampled, torch.device("cpu")), torch.arange(len(plan.batch.mask))
        metrics.add_plan(plan, every, every)
        for rows in every.split(3):
            part = plan.rows(rows, plan.batch.mask.shape[1])
            metrics.add_rows(part, rows, part.batch.require("logp", "test"), torch.tensor(1.0))
        check_counts(plan, metrics.metrics(accelerator))


def check_counts(plan: Plan, metrics: Mapping[str, float]) -> None:
    tokens, mass = plan.batch.trace.entries[0].value.sum().item(), plan.batch.advantage.abs().sum().item()
    acted = by_hand(plan.batch.trace)
    for name, here in acted.items():
        assert metrics[f"touched/{name}/tokens"] == pytest.approx(here.sum().item() / max(1, tokens))
        share = plan.batch.advantage.abs()[here].sum().item() / (mass or 1.0)
        assert metrics[f"touched/{name}/mass"] == pytest.approx(share)
        for other in acted.keys() - {name}:
            both = (here & acted[other]).sum().item()
            assert metrics.get(f"touched/{name}/overlap/{other}", 0.0) == pytest.approx(both / max(1, here.sum()))


def by_hand(trace: Trace) -> dict[str, Tensor]:
    """Part -> tokens that an entry of the trace changes."""
    acted, tokens = {}, trace.entries[0].value

    def wide(values: Tensor) -> Tensor:
        return values if values.dim() == 2 else values[:, None].expand(tokens.shape)

    for entry in trace:
        if entry.action is Action.TOKENS:
            tokens = entry.value
        elif entry.action in (Action.REWARD, Action.ADD, Action.CHOICE):
            acted[entry.part] = tokens & (wide(entry.value) != 0)
        elif entry.action is Action.WEIGH:
            acted[entry.part] = tokens & (entry.value != 1)
        elif entry.action in (Action.SELECT, Action.MASK):
            acted[entry.part] = tokens & ~wide(entry.value)
        elif entry.action is Action.GROUP:
            acted[entry.part] = tokens & entry.value
    return acted


LAWS = (
    the_account_multiplied_out_is_what_the_gradient_has,
    the_equation_prints_the_order_of_the_account,
    the_microscope_shows_the_account,
    verls_columns_change_nothing,
    the_metrics_of_training_count_the_account,
)


@pytest.mark.parametrize("expression", [*thinned(EXPRESSIONS, 8, slow=4), *STATED])
def test_every_view_says_what_the_account_says(expression: str) -> None:
    for law in LAWS:
        law(parse(expression))
