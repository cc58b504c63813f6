"""What objectives accept and refuse, what parts may say of themselves, and what is calculated only when asked for."""

import itertools
import json
import subprocess
import sys
from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from objectives import (
    Bounds,
    Modifier,
    ObjectiveError,
    Prepared,
    TokenBatch,
    parameter,
    parse,
    recipe,
    register,
)
from objectives.batch import writers
from objectives.ops import torch as lazy
from objectives.ops import without_gradients
from objectives.zoo import RECIPES
from tests.objectives.batches import random_case, token_batch
from tests.objectives.comparison import at_current, evaluate, last_position
from tests.objectives.vectors import batch_z, rollouts_z
from tests.objectives.zoo_sample import SAMPLE, SETTINGS, VARIANTS


def prepared_batch(expression: str) -> Prepared:
    return parse(expression).prepare(at_current(token_batch(random_case(1, moved=True))))


# ---- batches ---------------------------------------------------------------------------------------------------------


def test_a_given_advantage_stands_in_for_rewards() -> None:
    objective = parse("stapo")
    batch = token_batch(random_case(4, moved=True))
    scores = objective.prepare(batch).advantage[:, 0]
    given = batch.with_fields(advantage=scores, reward=None, group=None)
    present = batch.mask[:, 0]
    for found, expected in zip(objective.token_gradients(given), objective.token_gradients(batch), strict=True):
        assert torch.equal(found[present], expected[present])


def test_batches_that_make_no_sense_are_refused_with_what_to_type() -> None:
    objective, batch = parse("stapo"), at_current(token_batch(random_case(4, moved=True)))
    with pytest.raises(ObjectiveError, match="prepared already"):
        objective.prepare(objective.prepare(batch))
    for method in ("plan", "passes"):
        with pytest.raises(ObjectiveError, match=f"{method} takes a prepared batch: ") as raised:
            getattr(objective, method)(batch)
        assert eval(str(raised.value).partition(": ")[2], {"objective": objective, "batch": batch})
    mask = torch.ones(3, 3).bool()
    with pytest.raises(ObjectiveError, match=r"a prepared advantage must be \[N, T\]"):
        Prepared.of(TokenBatch(mask=mask, logp_old=torch.zeros(3, 3)), selected=mask[0], advantage=torch.ones(3))
    with pytest.raises(ObjectiveError, match="at least 2 responses"):
        objective.prepare(TokenBatch(mask=mask, group=torch.tensor([0, 0, 1]), reward=torch.ones(3)))
    with pytest.raises(ObjectiveError, match=r"group, which this batch lacks: TokenBatch\(\.\.\., group=\.\.\.\)"):
        objective.prepare(TokenBatch(mask=mask, reward=torch.ones(3)))
    with pytest.raises(ObjectiveError, match="group_norm takes one reward per response"):
        parse("grpo").advantages(rollouts_z().with_fields(reward=torch.zeros(4, 4, dtype=torch.float64)))
    rewards = torch.zeros(4, 2).double()
    with pytest.raises(ObjectiveError, match="3 reward_weights for 2 rewards"):
        parse("gdpo").advantages(rollouts_z().with_fields(rewards=rewards, reward_weights=(1.0, 1.0, 1.0)))
    with pytest.raises(ObjectiveError, match=r"rewards must be \[N, K\] with N = 4, not \[3, 2\]"):
        rollouts_z().with_fields(rewards=rewards[:3])


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


def test_a_given_limit_needs_none_from_the_batch() -> None:
    unlimited = token_batch(random_case(1, moved=True)).with_fields(max_length=None)
    parse("grpo+soft_overlong(max_length=10)").prepare(unlimited)
    parse("dr_grpo(length=8)").plan(batch_z().with_fields(max_length=None))
    assert "max_length" not in parse("soft_overlong(max_length=10)").needs
    with pytest.raises(ObjectiveError, match="soft_overlong reads the field max_length, which this batch lacks"):
        parse("dapo").prepare(unlimited)


def test_rows_may_be_positions_a_slice_or_a_mask_and_log_probs_must_reach_the_end_of_the_responses() -> None:
    objective, batch = parse("grpo+s2t"), at_current(token_batch(random_case(1, moved=True)))
    plan = objective.plan(objective.prepare(batch))
    chosen = torch.arange(len(batch.mask)) < 3
    losses = [objective.loss(plan, rows, plan.batch.logp[rows]) for rows in (slice(3), chosen, torch.arange(3))]
    assert losses[0] == losses[1] == losses[2] != 0
    with pytest.raises(ObjectiveError, match="longer"):
        objective.loss(plan, slice(None), plan.batch.logp[:, :2])


def test_a_batch_without_rows_has_a_loss_of_zero() -> None:
    batch = token_batch(random_case(1, moved=True)).rows(slice(0, 0))
    for expression in VARIANTS:
        assert all(update.loss == 0 for update in evaluate(parse(expression), batch)), expression


def test_bounds_per_token_follow_rows_and_width() -> None:
    """Bounds [N, T], [N, 1], [1, T] and [T] are promised to later methods."""
    objective, prepared = parse("justrl"), prepared_batch("justrl")
    plan = objective.plan(prepared)
    whole, (n, t) = plan.batch.logp, plan.batch.mask.shape
    for shape in ((n, t), (n, 1), (1, t), (t,), (1,), ()):
        bounded = replace(plan, bounds=Bounds(torch.full(shape, 0.2), torch.full(shape, 0.28)))
        for row in range(len(whole)):
            rows, width = torch.tensor([row]), last_position(plan.batch.mask[[row]])
            found = objective.loss(bounded, rows, whole[rows][:, :width])
            assert found.item() == pytest.approx(objective.loss(plan, rows, whole[rows]).item(), rel=1e-6, abs=1e-12)


def test_a_response_is_as_long_as_it_is_whatever_the_loss_sees() -> None:
    mask = torch.tensor([[True, False, True, False], [False] * 4, [True] * 4])
    assert TokenBatch(mask=mask).lengths.tolist() == [3, 0, 4]
    assert TokenBatch(mask=mask, length=torch.tensor([4, 2, 4])).lengths.tolist() == [4, 2, 4]
    assert TokenBatch(mask=mask[:, :0]).lengths.tolist() == [0, 0, 0]
    writer = writers(torch.tensor([[1, 0, 1, 0], [0, 1, 0, 0], [1, 1, 1, 1]]).bool(), torch.ones(3, 4).bool())
    assert TokenBatch(mask=mask, writer=writer).lengths.tolist() == [2, 1, 4]
    batch = TokenBatch(mask=mask, length=torch.tensor([4, 2, 4]), reward=torch.ones(3))
    assert parse("soft_overlong(max_length=4,cache=2)").select(batch).reward.tolist() == [0, 1, 0]


# ---- rewards, advantages and payloads --------------------------------------------------------------------------------


def test_late_rewards_come_after_selection() -> None:
    batch, objective = rollouts_z(), parse("grpo+kl_reward")
    assert torch.equal(objective.select(batch).reward, batch.reward)
    assert objective.select(batch.with_fields(logp_old=None, logp_ref=None)).selected.all()
    assert not torch.equal(objective.advantages(batch), parse("grpo").advantages(batch))


def test_tokens_of_no_advantage_leave_mask_and_denominators_but_not_observations() -> None:
    batch = rollouts_z().with_fields(reward=torch.tensor([0.0, 0.5, 1.0, 0.5], dtype=torch.float64))
    objective = parse("dppo+live_only")
    prepared, whole = objective.prepare(batch), parse("dppo").prepare(batch)
    live = torch.tensor([True, False, True, False])
    assert torch.equal(prepared.mask, batch.mask & live[:, None]) and prepared.selected.all()
    assert objective.select(batch).selected.all() and not objective.refills
    ratio = parse("dppo").plan(whole).policy_coefficient[0, 0] / objective.plan(prepared).policy_coefficient[0, 0]
    assert ratio == pytest.approx((prepared.mask.sum() / batch.mask.sum()).item())


def test_rows_without_advantage_are_active_where_advantages_have_no_say() -> None:
    batch = batch_z(torch.zeros(4, 4, dtype=torch.float64))
    objective = parse("nft")
    assert objective.plan(batch).active.all()
    assert not parse("grpo-kl").plan(batch).active.any()
    assert (objective.token_gradient(objective.plan(batch))[batch.mask] != 0).all()


def test_a_penalty_is_on_the_tokens_it_chooses() -> None:
    plan = parse("kl_cov(fraction=0.2)").plan(batch_z())
    chosen = plan.touched["cov_penalty"]
    assert torch.equal(plan.penalty_coefficients["cov_penalty"] != 0, chosen)
    assert (plan.penalty_coefficients["cov_penalty"][chosen] == 0.1).all()
    assert "kl" not in parse("grpo").plan(batch_z()).touched


def test_what_the_plan_settles_for_a_surrogate_follows_the_rows() -> None:
    objective, batch = parse("nft"), batch_z()
    plan = objective.plan(batch)
    assert set(plan.extra) == {"correct", "success"}
    total = objective.loss(plan, slice(None), batch.logp)
    parts = [objective.loss(plan, torch.tensor(rows), batch.logp[rows]) for rows in ([3, 0], [2], [1])]
    torch.testing.assert_close(sum(parts), total, rtol=1e-12, atol=0)


# ---- what parts say of themselves ------------------------------------------------------------------------------------


def test_modifiers_of_one_bound_replace_each_other_or_exclude_each_other_as_additions() -> None:
    @register
    @dataclass(frozen=True)
    class SeamWide(Modifier):
        """Sets both widths."""

        name = "seam_wide"
        paper = "arXiv:0000.00000"
        sets = frozenset({"low", "high"})
        width: float = parameter(0.5, "[0, 1]", "both widths")

        def modify(self, bounds: Bounds, batch: TokenBatch) -> Bounds:
            return replace(bounds, low=self.width, high=self.width)

    of = {
        expression: {part.name for part in parse(expression).parts} for expression in ("dapo", "dapo(variant=authors)")
    }
    assert {part.name for part in parse("dapo+seam_wide").parts} == of["dapo"] - {"clip_higher"} | {"seam_wide"}
    assert {"seam_wide", "dual_clip"} <= {part.name for part in parse("dapo(variant=authors)+seam_wide").parts}
    for terms in itertools.permutations(["seam_wide", "clip_higher"]):
        with pytest.raises(ObjectiveError, match=r"exclude each other \(one part sets the bound high\): leave one"):
            parse("+".join(["grpo", *terms]))
    again = parse("dapo+seam_wide(width=0.3)")
    assert parse(again.expression) == again
    assert "clip(r, seam_wide, seam_wide)" in parse("justrl+seam_wide").equation


@settings(deadline=None, derandomize=True, max_examples=20)
@given(st.lists(st.sampled_from(SAMPLE), min_size=1, max_size=3), st.lists(st.integers(0, len(SAMPLE) - 1), max_size=3))
def test_the_key_of_an_objective_does_not_depend_on_what_is_registered(
    expressions: list[str], registered: list[int]
) -> None:
    before = [(parse(expression).key, parse(expression)) for expression in expressions]
    recipes = dict(RECIPES)
    try:
        for number in registered:
            parts = parse(SAMPLE[number]).parts
            recipe(f"seam_{number}", paper="", summary="", variants={"one": parts}, contribution=(parts[0].name,))
        for expression, (key, objective) in zip(expressions, before, strict=True):
            assert parse(expression).key == objective.key == key
            assert parse(parse(expression).expression) == objective
    finally:
        RECIPES.clear()
        RECIPES.update(recipes)


# ---- descriptions, and what needs torch ------------------------------------------------------------------------------


def test_a_description_is_plain_data_and_has_the_actual_numbers() -> None:
    for expression in (*VARIANTS, *SETTINGS):
        objective, description = parse(expression), parse(expression).describe()
        assert json.loads(json.dumps(description)) == description, expression
        assert description["expression"] == objective.expression
        assert [part["term"] for part in description["parts"]] == [part.term() for part in objective.parts]
        assert all(part["formula"] for part in description["parts"])
    assert parse("s2t(tau_p=0.0123)").describe()["parts"][-4]["formula"].count("0.0123") == 1


CODE = """
import sys
import objectives
NAMES = [name.name for name in objectives.names() if not name.required_parameters]
{}
print("torch" in sys.modules)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "calculates"),
    [
        ("", False),
        ("print(objectives.parse('stapo+clip_higher').equation, file=sys.stderr)", False),
        ("[(objective := objectives.parse(name)).describe() for name in NAMES]; repr(objective)", False),
        ("objectives.TokenBatch(mask=objectives.ops.torch.ones(1, 1).bool())", True),
    ],
)
def test_the_zoo_imports_torch_when_something_is_calculated(code: str, calculates: bool) -> None:
    done = subprocess.run([sys.executable, "-c", CODE.format(code)], capture_output=True, text=True, check=True)
    assert done.stdout == f"{calculates}\n"


def test_what_stands_for_torch_is_torch_and_what_is_without_gradients_has_none() -> None:
    assert lazy.zeros is torch.zeros
    with pytest.raises(AttributeError, match="no attribute 'zeroes'"):
        lazy.zeroes  # noqa: B018
    value = torch.ones(1, requires_grad=True)
    assert not without_gradients(lambda: value * 2)().requires_grad and (value * 2).requires_grad
    batch, objective = token_batch(random_case(1, moved=True)), parse("justrl")
    with torch.no_grad():
        found = objective.token_gradients(batch)
    assert all(map(torch.equal, found, objective.token_gradients(batch)))
