"""What objectives accept and refuse: advantages from outside, rows in any form, bounds per token, empty batches."""

from dataclasses import replace

import pytest
import torch

from objectives import Bounds, Objective, ObjectiveError, Prepared, TokenBatch, parse
from tests.objectives.batches import random_case, token_batch
from tests.objectives.comparison import at_current, evaluate, last_position
from tests.objectives.zoo_sample import SAMPLE_PAIRS, VARIANTS


def test_a_given_advantage_stands_in_for_rewards() -> None:
    objective = parse("stapo")
    batch = token_batch(random_case(4, moved=True))
    scores = objective.prepare(batch).advantage[:, 0]
    given = batch.with_fields(advantage=scores, reward=None, group=None)
    present = batch.mask[:, 0]
    for found, expected in zip(objective.token_gradients(given), objective.token_gradients(batch), strict=True):
        assert torch.equal(found[present], expected[present])


def test_a_prepared_batch_is_not_prepared_twice() -> None:
    prepared = parse("justrl").prepare(token_batch(random_case(1)))
    with pytest.raises(ObjectiveError, match="prepared already"):
        parse("justrl").prepare(prepared)


def test_a_plan_needs_advantages_per_token() -> None:
    batch = TokenBatch(mask=torch.ones(3, 3).bool(), logp_old=torch.zeros(3, 3))
    with pytest.raises(ObjectiveError, match=r"a prepared advantage must be \[N, T\]"):
        Prepared.of(batch, selected=torch.ones(3).bool(), advantage=torch.ones(3))


def test_a_group_of_one_is_refused() -> None:
    batch = TokenBatch(mask=torch.ones(3, 2).bool(), group=torch.tensor([0, 0, 1]), reward=torch.ones(3))
    with pytest.raises(ObjectiveError, match="at least 2 responses"):
        parse("justrl").prepare(batch)


def test_what_a_plan_lacks_is_said_with_what_to_type() -> None:
    objective = parse("stapo+lopti")
    rollouts = objective.prepare(replace(token_batch(random_case(4, moved=True)), logp=None, entropy=None))
    with pytest.raises(ObjectiveError, match="reads the field entropy") as raised:
        objective.plan(rollouts)
    typed = str(raised.value).partition("lacks: ")[2].removesuffix(" while the policy has not moved")
    given = eval(typed, {"batch": rollouts})
    with pytest.raises(ObjectiveError, match=r"reads the field logp, .*: batch\.with_fields\(logp=batch\.logp_old\)"):
        objective.plan(given)
    assert objective.plan(given.with_fields(logp=given.logp_old)).batch.entropy is not None
    with pytest.raises(ObjectiveError, match=r"group, which this batch lacks: TokenBatch\(\.\.\., group=\.\.\.\)"):
        objective.prepare(TokenBatch(mask=rollouts.mask, reward=torch.ones(len(rollouts.mask))))


@pytest.mark.parametrize("method", ["plan", "passes"])
def test_a_batch_that_is_not_prepared_is_refused_with_what_to_type(method: str) -> None:
    objective, batch = parse("stapo"), at_current(token_batch(random_case(4, moved=True)))
    with pytest.raises(ObjectiveError, match=f"{method} takes a prepared batch: ") as raised:
        getattr(objective, method)(batch)
    assert eval(str(raised.value).partition(": ")[2], {"objective": objective, "batch": batch})


def test_rows_may_be_positions_a_slice_or_a_mask() -> None:
    objective, batch = parse("grpo+s2t"), at_current(token_batch(random_case(1, moved=True)))
    plan = objective.plan(objective.prepare(batch))
    chosen = torch.arange(len(batch.mask)) < 3
    losses = [objective.loss(plan, rows, plan.batch.logp[rows]) for rows in (slice(3), chosen, torch.arange(3))]
    assert losses[0] == losses[1] == losses[2] != 0


def test_log_probs_must_reach_the_end_of_the_responses() -> None:
    batch = TokenBatch(
        mask=torch.ones(2, 3).bool(), group=torch.zeros(2), reward=torch.ones(2), logp_old=torch.zeros(2, 3)
    )
    plan = parse("justrl").plan(parse("justrl").prepare(batch))
    with pytest.raises(ObjectiveError, match="longer"):
        parse("justrl").loss(plan, slice(None), torch.zeros(2, 2))


@pytest.mark.parametrize("expression", VARIANTS)
def test_a_batch_without_rows_has_a_loss_of_zero(expression: str) -> None:
    batch = token_batch(random_case(1, moved=True)).rows(slice(0, 0))
    assert all(update.loss == 0 for update in evaluate(parse(expression), batch))


def test_bounds_per_token_follow_rows_and_width() -> None:
    """Bounds [N, T], [N, 1], [1, T] and [T] are promised to later methods."""
    objective = parse("justrl")
    batch = at_current(token_batch(random_case(1, moved=True)))
    plan = objective.plan(objective.prepare(batch))
    whole = plan.batch.logp
    n, t = plan.batch.mask.shape
    for shape in ((n, t), (n, 1), (1, t), (t,), (1,), ()):
        bounded = replace(plan, bounds=Bounds(torch.full(shape, 0.2), torch.full(shape, 0.28)))
        for row in range(len(whole)):
            rows, width = torch.tensor([row]), last_position(plan.batch.mask[[row]])
            found = objective.loss(bounded, rows, whole[rows][:, :width])
            assert found.item() == pytest.approx(objective.loss(plan, rows, whole[rows]).item(), rel=1e-6, abs=1e-12)


def test_token_gradients_need_no_gradient_mode() -> None:
    batch = token_batch(random_case(1, moved=True))
    expected = parse("justrl").token_gradients(batch)
    with torch.no_grad():
        found = parse("justrl").token_gradients(batch)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("expression", ["grpo", "group_center"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_reward_equal_to_its_groups_mean_has_an_advantage_of_exactly_zero(
    expression: str, dtype: torch.dtype
) -> None:
    rewards = torch.tensor([0.1, 0.2, 0.3, 0.3, 0.7, 1.1, -0.1, 0.0, 0.1], dtype=dtype)
    batch = TokenBatch(mask=torch.ones(9, 2).bool(), group=torch.arange(9) // 3, reward=rewards)
    advantage = parse(f"{expression}-kl").prepare(batch).advantage
    assert advantage is not None
    assert (advantage[1::3] == 0).all()
    assert (advantage[0::3] != 0).all()


def test_an_objective_without_a_part_is_what_its_removal_says() -> None:
    for expression in (*VARIANTS, *SAMPLE_PAIRS, "stapo+kl+clip_higher(high=0.4)", "grpo+group_center"):
        check_removals(expression)


def check_removals(expression: str) -> None:
    objective = parse(expression)
    plain = ".".join(map(str, objective.parts))
    for part in objective.parts:
        others = [other for other in objective.parts if other is not part]
        fallback = [other for other in parse("grpo").parts if part.exclusive and other.stage == part.stage]
        if fallback and fallback[0].name == part.name:
            with pytest.raises(
                ObjectiveError, match=f"cannot remove {part.name}: stage .* needs one part; add another"
            ):
                objective.without(part.name)
        elif part.name == "global_norm":
            with pytest.raises(ObjectiveError, match="one reward per token, but group_norm takes one per response"):
                objective.without(part.name)
        else:
            assert objective.without(part.name) == Objective((*others, *fallback))
    assert plain == ".".join(map(str, objective.parts))
    for recipe in ("stapo", "dapo"):
        assert parse(recipe).without("clip_higher") == parse(f"{recipe}-clip_higher")
    with pytest.raises(ObjectiveError, match="cannot remove nothing: it is not there; the objective has"):
        objective.without("nothing")
