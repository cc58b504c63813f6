"""Laws 1, 2, 4 and 5 for everything in the zoo: a new method joins by being registered."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from references import Case
from torch import Tensor

from objectives import ObjectiveError, TokenBatch, names, parse
from tests.objectives.batches import beyond_the_mask, random_case, token_batch
from tests.objectives.comparison import Update, at_current, evaluate, same

RECIPES = [name for name in names() if name.kind == "recipe"]
VARIANTS = [f"{name.name}(variant={variant})" for name in RECIPES for variant in name.variants]
PARTS = [name.name for name in names() if name.kind == "part"]
PAIRS = [f"{base.name}+{addition.name}" for base in RECIPES for addition in RECIPES if base != addition]
ZOO = [*VARIANTS, *PARTS, *PAIRS]
DTYPES = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
SEEDS = (1, 2)


@cache
def batch_of(seed: int, dtype: torch.dtype) -> TokenBatch:
    """In float64 an extreme batch, judged token by token; in float32 a mild one, judged response by response."""
    return token_batch(random_case(seed, extreme=dtype == torch.float64, moved=True), dtype)


def agree(first: list[Update], second: list[Update], dtype: torch.dtype) -> bool:
    """Whether gradients and losses are equal to 1e-10 relative in float64, to 1e-6 in float32."""
    tolerance = 1e-10 if dtype == torch.float64 else 1e-6
    return len(first) == len(second) and all(
        close(a.gradient, b.gradient, tolerance)
        and close(a.entropy_gradient, b.entropy_gradient, tolerance)
        and math.isclose(a.loss, b.loss, rel_tol=10 * tolerance, abs_tol=10 * tolerance)
        for a, b in zip(first, second, strict=True)
    )


def close(first: Tensor, second: Tensor, tolerance: float) -> bool:
    scale = second.abs() if second.dtype == torch.float64 else second.abs().amax(1, keepdim=True)
    return bool(((first - second).abs() <= tolerance * scale).all())


# ---- law 1: how a batch is cut, ordered and padded has no influence --------------------------------------------------


@DTYPES
@pytest.mark.parametrize("expression", ZOO)
def test_cutting_and_trimming_micro_batches_changes_nothing(expression: str, dtype: torch.dtype) -> None:
    objective = parse(expression)
    for seed in SEEDS:
        batch = batch_of(seed, dtype)
        whole = evaluate(objective, batch)
        for pieces in (2, 5):
            cut = torch.randperm(len(batch.mask), generator=torch.Generator().manual_seed(seed)).tensor_split(pieces)
            assert agree(evaluate(objective, batch, cut, trim=True), whole, dtype)


@DTYPES
@pytest.mark.parametrize("expression", ZOO)
def test_the_order_of_rows_changes_nothing(expression: str, dtype: torch.dtype) -> None:
    objective = parse(expression)
    for seed in SEEDS:
        batch = batch_of(seed, dtype)
        order = torch.randperm(len(batch.mask), generator=torch.Generator().manual_seed(seed))
        back = order.argsort()
        found = [
            Update(update.gradient[back], update.entropy_gradient[back], update.loss)
            for update in evaluate(objective, batch.rows(order))
        ]
        assert agree(found, evaluate(objective, batch), dtype)


@DTYPES
@pytest.mark.parametrize("expression", ZOO)
def test_the_amount_of_padding_changes_nothing(expression: str, dtype: torch.dtype) -> None:
    objective = parse(expression)
    for seed in SEEDS:
        batch = batch_of(seed, dtype)
        width = batch.mask.shape[1]
        padded = evaluate(objective, padded_with_nan(batch, 5))
        assert all((update.gradient[:, width:] == 0).all() for update in padded)
        found = [Update(up.gradient[:, :width], up.entropy_gradient[:, :width], up.loss) for up in padded]
        assert agree(found, evaluate(objective, batch), dtype)


def padded_with_nan(batch: TokenBatch, more: int) -> TokenBatch:
    fields = {
        name: torch.nn.functional.pad(field, (0, more), value=False if field.dtype == torch.bool else math.nan)
        for name, field in batch.tensors().items()
        if field.dim() == 2
    }
    return replace(batch, **fields)


@DTYPES
@pytest.mark.parametrize("expression", ZOO)
def test_the_number_of_ranks_changes_nothing(expression: str, dtype: torch.dtype) -> None:
    """Every rank holds some rows, plans over what all ranks hold, and calculates the loss of its own."""
    objective, batch, ranks = parse(expression), batch_of(SEEDS[0], dtype), 3
    held = [torch.arange(len(batch.mask))[rank::ranks] for rank in range(ranks)]
    gathered = torch.cat(held)
    own = torch.arange(len(gathered)).split([len(rows) for rows in held])
    cut = [piece for rows in own for piece in rows.split(3)]
    back = gathered.argsort()
    found = [
        Update(update.gradient[back], update.entropy_gradient[back], update.loss)
        for update in evaluate(objective, batch.rows(gathered), cut, trim=True)
    ]
    assert agree(found, evaluate(objective, batch), dtype)


@pytest.mark.parametrize("expression", [*VARIANTS, *PARTS, "s2t(scope=microbatch)", "top_entropy(scope=microbatch)"])
def test_only_what_says_so_depends_on_micro_batches(expression: str) -> None:
    objective, changes = parse(expression), 0
    for seed in range(16):
        batch = at_current(token_batch(random_case(seed)))
        assert batch.micro_batch is not None
        other = batch.with_fields(micro_batch=torch.arange(len(batch.mask)) // 2)
        changes += not same(evaluate(objective, batch), evaluate(objective, other))
    assert (changes > 0) == objective.reads_micro_batches


# ---- law 2: identities -----------------------------------------------------------------------------------------------

EQUAL = [
    ("dapo-dynamic_sampling-soft_overlong", "justrl"),
    ("dapo(variant=authors)-dynamic_sampling-soft_overlong", "justrl(variant=authors)"),
    ("stapo-s2t", "justrl"),
    ("stapo-stapo", "justrl"),
    ("stapo(variant=authors)-s2t", "justrl(variant=authors)"),
    ("justrl+s2t", "stapo"),
    ("justrl+stapo", "stapo"),
    ("justrl+dapo", "dapo"),
    ("dapo+top_entropy", "entropy20"),
    ("entropy20-entropy20", "dapo"),
    ("entropy20(variant=authors)-20_entropy", "dapo(variant=authors)"),
    ("entropy20(denominator=all)", "entropy20(variant=v1)"),
    ("stapo(q=0.8)", "stapo(variant=v1)"),
    ("stare(attenuate=0.9)", "stare(variant=c2)"),
    ("stare-surprisal_reweighting", "dapo-soft_overlong"),
    ("stare-stare-dynamic_sampling", "justrl"),
    ("ar-ar", "lopti-lopti"),
    ("ar+lopti", "lopti+ar"),
    ("lopti+single_pass+ar", "ar"),
    ("grpo+clip_higher+token_mean-kl", "justrl"),
    ("grpo+justrl-kl", "justrl"),
    ("clip", "grpo"),
    ("s2t", "grpo+s2t"),
]


@pytest.mark.parametrize(("first", "second"), EQUAL)
def test_identities_of_composition(first: str, second: str) -> None:
    assert parse(first) == parse(second)
    assert parse(first).expression == parse(second).expression


NEUTRAL = [
    "s2t(tau_p=0)",
    "s2t(q=0)",
    "advantage_reweighting(alpha=0)",
    "top_entropy(fraction=1)",
    "stare(amplify=1,attenuate=1)",
    "stare(amplify=2,attenuate=0.5,fraction=0)",
    "stare(amplify=2,attenuate=0.5,target_entropy=1e-9)",
    "entropy_bonus(coefficient=0)",
    "dual_clip(cap=1e30)",
    "soft_overlong(max_length=1000)",
]


@pytest.mark.parametrize("addition", NEUTRAL)
@pytest.mark.parametrize("base", [name.name for name in RECIPES])
def test_neutral_settings_leave_the_gradient_bitwise_unchanged(base: str, addition: str) -> None:
    plain, changed = parse(base), parse(f"{base}+{addition}")
    part = addition.split("(")[0].replace("stare", "surprisal_reweighting")
    assert part in {other.name for other in changed.parts}
    if part in {other.name for other in plain.parts}:
        plain = parse(f"{base}-{part}")
    for seed in range(4):
        case = random_case(seed, moved=True)
        case = replace(case, entropy_old=case.entropy_old + 1e-6)
        assert same(evaluate(changed, token_batch(case)), evaluate(plain, token_batch(case)))


def test_more_identities_of_gradients() -> None:
    for seed in range(8):
        case = random_case(seed, moved=True)
        batch = token_batch(case)
        pairs = [("grpo+kl(beta=0)", "grpo-kl"), ("justrl+clip_higher(high=0.2)", "justrl-clip_higher")]
        pairs += [("justrl+stare(fraction=1,attenuate=1,amplify=1)", "justrl")]
        for first, second in pairs:
            assert same(evaluate(parse(first), batch), evaluate(parse(second), batch))
        untruncated = batch.with_fields(truncated=torch.zeros_like(batch.truncated))
        assert same(evaluate(parse("justrl+overlong_filter"), untruncated), evaluate(parse("justrl"), batch))
        mixed = token_batch(random_case(seed, extreme=False, moved=True))
        assert same(evaluate(parse("justrl+dynamic_sampling"), mixed), evaluate(parse("justrl"), mixed))


@pytest.mark.parametrize("expression", VARIANTS)
def test_an_unmoved_policy_needs_no_old_log_probs_and_no_current_statistics(expression: str) -> None:
    objective = parse(expression)
    for seed in range(4):
        batch = token_batch(random_case(seed, moved=False))
        at_old = batch.with_fields(logp=batch.logp_old, entropy=batch.entropy_old)
        expected = objective.token_gradients(at_old)
        assert all(torch.equal(a, b) for a, b in zip(objective.token_gradients(batch), expected, strict=True))
        if "logp_old" not in objective.requires(updates=1):
            found = objective.token_gradients(at_old.with_fields(logp_old=None))
            assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("expression", [*VARIANTS, *PARTS])
def test_fields_that_are_not_declared_are_not_read(expression: str) -> None:
    objective, batch = parse(expression), batch_of(SEEDS[0], torch.float64)
    optional = {"correct", "truncated", "logp_old", "entropy_old", "entropy", "logp_ref"} - objective.needs
    expected = objective.token_gradients(batch)
    found = objective.token_gradients(batch.with_fields(**dict.fromkeys(optional - {"entropy"})))
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    for field in sorted(objective.needs & {"correct", "truncated", "entropy_old", "entropy", "logp_ref"}):
        with pytest.raises(ObjectiveError, match=field):
            objective.token_gradients(batch.with_fields(**{field: None}))


# ---- law 4: exact zeros ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("garbage", [math.nan, 1e300])
@pytest.mark.parametrize("expression", ZOO)
def test_values_beyond_the_mask_have_no_influence(expression: str, garbage: float) -> None:
    objective, case = parse(expression), random_case(3, moved=True)
    clean = evaluate(objective, token_batch(beyond_the_mask(case, 0.0)))
    dirty = evaluate(objective, token_batch(beyond_the_mask(case, garbage)))
    assert same(clean, dirty)
    for update in dirty:
        assert (update.gradient[~torch.from_numpy(case.mask)] == 0).all()
        assert (update.entropy_gradient[~torch.from_numpy(case.mask)] == 0).all()


@pytest.mark.parametrize("expression", [expression for expression in ZOO if parse(expression).refills])
def test_dropped_rows_have_no_influence(expression: str) -> None:
    objective = parse(expression)
    case = next(case for case in map(random_case, range(100)) if case.logp is not None and _some_uniform(case))
    batch = token_batch(case)
    selected = objective.select(batch).selected
    assert selected is not None
    assert 0 < selected.sum() < len(selected)
    whole = evaluate(objective, batch)
    spoiled = {
        name: torch.where(selected[:, None], field, math.nan)
        for name, field in batch.tensors().items()
        if field.dim() == 2 and field.is_floating_point()
    }
    assert same(evaluate(objective, batch.with_fields(**spoiled)), whole)
    left = [Update(up.gradient[selected], up.entropy_gradient[selected], up.loss) for up in whole]
    assert agree(evaluate(objective, batch.rows(selected)), left, torch.float64)
    assert all((update.gradient[~selected] == 0).all() for update in whole)


def _some_uniform(case: Case) -> bool:
    uniform = [len(set(case.correct[case.group == name])) == 1 for name in set(case.group.tolist())]
    rewards = [len(set(case.reward[case.group == name])) == 1 for name in set(case.group.tolist())]
    return any(uniform) and not all(uniform) and uniform == rewards


@DTYPES
@pytest.mark.parametrize("size", [2, 3, 5, 6, 7, 8, 9])
@pytest.mark.parametrize("reward", [0.1, 0.7, -1 / 3, 1e-9, 1e9 + 0.1, 1.0, 0.0])
@pytest.mark.parametrize("expression", ["grpo", "group_center"])
def test_equal_rewards_have_an_advantage_of_exactly_zero(
    expression: str, reward: float, size: int, dtype: torch.dtype
) -> None:
    rewards = torch.full((size + 2,), reward, dtype=dtype)
    rewards[-1] = 5.0
    batch = TokenBatch(
        mask=torch.ones(size + 2, 2).bool(), group=torch.tensor([4] * size + [1, 1]), reward=rewards, logp_ref=None
    )
    advantage = parse(f"{expression}-kl").prepare(batch).advantage
    assert (advantage[:size] == 0).all()
    assert (advantage[size:] != 0).all()


@pytest.mark.parametrize("expression", VARIANTS)
def test_equal_rewards_have_no_policy_gradient(expression: str) -> None:
    objective = parse(expression)
    objective = parse(f"{objective}-kl") if any(part.name == "kl" for part in objective.parts) else objective
    case = random_case(5, moved=True)
    batch = token_batch(replace(case, reward=np.full(len(case.reward), 0.1), max_length=1000))
    assert all((update.gradient == 0).all() and update.loss == 0 for update in evaluate(objective, batch))


@pytest.mark.parametrize("expression", [f"{base.name}+{mask}" for base in RECIPES for mask in ("s2t", "top_entropy")])
def test_silenced_tokens_have_no_policy_gradient(expression: str) -> None:
    objective, silenced = parse(expression), 0
    objective = parse(f"{objective}-kl") if any(part.name == "kl" for part in objective.parts) else objective
    for seed in range(10):
        for update in objective.passes(objective.prepare(at_current(token_batch(random_case(seed))))):
            plan = objective.plan(update)
            masked = plan.touched.get("s2t", False) | plan.touched.get("top_entropy", torch.tensor(False))
            logp = plan.batch.logp.clone().requires_grad_()
            (gradient,) = torch.autograd.grad(objective.loss(plan, slice(None), logp), logp)
            assert (gradient[masked] == 0).all()
            silenced += int(masked.sum())
    assert silenced > 0


@pytest.mark.parametrize("expression", [*ZOO, *(f"{name.name}+entropy_bonus" for name in RECIPES)])
def test_inactive_rows_have_no_gradient(expression: str) -> None:
    """The trainer leaves inactive rows out of the forward pass."""
    objective = parse(expression)
    for seed in range(3):
        batch = at_current(token_batch(random_case(seed)))
        for update, prepared in zip(
            evaluate(objective, batch), objective.passes(objective.prepare(batch)), strict=True
        ):
            idle = ~objective.plan(prepared).active
            assert (update.gradient[idle] == 0).all()
            assert (update.entropy_gradient[idle] == 0).all()


# ---- law 5: Lopti's passes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("extra", ["", "+entropy_bonus(coefficient=0.01)", "+kl(beta=0.1)", "+entropy_bonus+kl"])
@pytest.mark.parametrize("setting", ["", "(eta=0.3)", "(portion=0.4)", "(order=high_first)"])
@pytest.mark.parametrize("base", [name.name for name in RECIPES])
def test_loptis_passes_add_up_to_the_joint_gradient(base: str, setting: str, extra: str) -> None:
    split = parse(f"{base}{extra}+lopti{setting}")
    joint = parse(f"{base}{extra}+single_pass")
    for seed in range(3):
        batch = token_batch(random_case(seed, moved=True))
        (whole,) = evaluate(joint, batch)
        first, second = evaluate(split, batch)
        assert torch.equal(first.gradient + second.gradient, whole.gradient)
        assert torch.equal(first.entropy_gradient + second.entropy_gradient, whole.entropy_gradient)
        assert not ((first.gradient != 0) & (second.gradient != 0)).any()


def test_lopti_above_every_probability_is_the_joint_pass_and_one_without_gradient() -> None:
    case = random_case(2, moved=True)
    batch = token_batch(replace(case, logp_old=case.logp_old - 1 / 64))
    first, second = evaluate(parse("lopti(eta=1)"), batch)
    (whole,) = evaluate(parse("lopti-lopti"), batch)
    assert torch.equal(first.gradient, whole.gradient)
    assert (second.gradient == 0).all()


def test_loptis_order_is_what_it_says() -> None:
    batch = token_batch(random_case(2, moved=True))
    low, high = evaluate(parse("lopti"), batch)
    first, second = evaluate(parse("lopti(order=high_first)"), batch)
    assert same([first, second], [high, low])
    assert not same([first], [low])
