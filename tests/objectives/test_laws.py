"""The laws for everything in the zoo: a new method joins by being registered.

Each law is a function of an expression in `laws`. They are tried on every part once, on settings in which more tokens
are chosen than by default, and on some pairs of recipes; the night has every pair.
"""

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from objectives import (
    Advantage,
    Mask,
    Modifier,
    Objective,
    ObjectiveError,
    Part,
    Ratio,
    TokenBatch,
    Writer,
    contract,
    parse,
)
from objectives.zoo import PARTS as REGISTERED
from tests.objectives.batches import random_case, token_batch, with_holes
from tests.objectives.comparison import Update, at_current, evaluate, same
from tests.objectives.laws import LAWS, SEEDS, agree, batch_of, of_each, of_tokens, without_penalties
from tests.objectives.zoo_sample import PAIRS, PARTS, RECIPES, SAMPLE_PAIRS, VARIANTS
from tests.thinned import at_night

LARGE_SHARES = [
    "clip_cov(fraction=0.2,low=0.1,high=1)",
    "kl_cov(fraction=0.2)",
    "dapo(scope=prompt)",
    "reinforce_pp_baseline(over=tokens)+overlong_filter",
    "s2t(scope=microbatch)",
    "top_entropy(scope=microbatch)",
    "entropy20+stapo+ar+stare+lopti+dual_clip+overlong_filter",
]
"""Settings in which more tokens are chosen than by default."""
FEW = ["grpo", "dapo", "gspo"]


@pytest.mark.parametrize("law", LAWS)
def test_the_zoo_obeys(law: str) -> None:
    of_each([*PARTS, *LARGE_SHARES, *SAMPLE_PAIRS[::16]], LAWS[law])


@pytest.mark.exhaustive
@pytest.mark.parametrize("base", RECIPES)
def test_every_variant_and_pair_obeys(base: str) -> None:
    variants = [variant for variant in VARIANTS if variant.split("(")[0] == base.split("(")[0]]
    for law in LAWS.values():
        of_each([*variants, *(pair for pair in PAIRS if pair.startswith(f"{base}+"))], law)


def test_the_batch_without_padding_that_contracts_are_tried_on_has_possible_values() -> None:
    full = contract._full(batch_of(SEEDS[0], torch.float32).blank_outside())
    assert full.mask.all() and (full.logp < 0).all() and (full.logp_old < 0).all() and (full.entropy > 0).all()


def test_only_what_says_so_depends_on_micro_batches() -> None:
    def law(expression: str) -> None:
        objective, changes = parse(expression), 0
        for seed in range(16):
            batch = at_current(token_batch(random_case(seed)))
            other = batch.with_fields(micro_batch=torch.arange(len(batch.mask)) // 2)
            changes += not same(evaluate(objective, batch), evaluate(objective, other))
            if changes or (seed > 1 and not objective.reads_micro_batches):
                break
        assert (changes > 0) == objective.reads_micro_batches

    of_each([*VARIANTS, *PARTS, *LARGE_SHARES], law)


# ---- identities ------------------------------------------------------------------------------------------------------

IDLE = {
    name: ",".join(f"{item.name}={item.metadata['idle']}" for item in fields(kind) if item.metadata["idle"] is not None)
    for name, kind in REGISTERED.items()
}
"""Part -> the values at which it declares that it changes nothing."""
NEUTRAL = [
    *(f"{name}({values})" for name, values in IDLE.items() if values and name != "kl"),
    "s2t(q=0)",
    "stare(amplify=2,attenuate=0.5,fraction=0)",
    "stare(amplify=2,attenuate=0.5,target_entropy=1e-9)",
    "dual_clip(cap=1e30)",
    "soft_overlong(max_length=1000)",
    "clip_cov(low=1e9,high=2e9)",
    "answer_filter(keep=all)",
]


def neutral_on(base: str, addition: str) -> tuple[Objective, Objective] | None:
    """The base without the added part, and with it; None where the base has no use for it."""
    part = addition.split("(")[0].replace("stare", "surprisal_reweighting")
    try:
        changed = parse(f"{base}+{addition}")
    except ObjectiveError:
        return None
    assert part in {other.name for other in changed.parts}
    return Objective(tuple(other for other in changed.parts if other.name != part)), changed


@pytest.mark.parametrize("base", at_night([*FEW, "lopti", "nft"], RECIPES))
def test_neutral_settings_leave_the_gradient_bitwise_unchanged(base: str) -> None:
    pairs = [found for addition in NEUTRAL if (found := neutral_on(base, addition))]
    assert len(pairs) > 0.5 * len(NEUTRAL)
    for seed in range(4):
        case = random_case(seed, moved=True)
        batch = token_batch(replace(case, entropy_old=case.entropy_old + 1e-6))
        for plain, changed in pairs:
            assert same(evaluate(changed, batch), evaluate(plain, batch)), changed


@pytest.mark.parametrize("base", at_night(["opd", "nft"], RECIPES))
def test_a_part_that_changes_no_gradient_or_leaves_none_is_refused_or_has_a_notice(base: str) -> None:
    silent = []
    for part in sorted({*PARTS} - {*RECIPES}):
        try:
            changed = parse(f"{base}+{part}")
        except ObjectiveError:
            continue
        added = [new for new in changed.parts if new not in parse(base).parts]
        if changed.notices or not added or any(type(new).control is not Part.control for new in added):
            continue  # what a controller moves may begin at nothing
        bounds = [new for new in added if isinstance(new, Modifier) or getattr(new, "reads_bounds", ())]
        if base == "kpo" and (len(bounds) == len(added) or part == "unclipped"):
            continue  # in a dozen tokens its ratio stays within all bounds
        batches = (token_batch(random_case(seed, moved=True)) for seed in range(200))
        found = ((evaluate(changed, batch), evaluate(parse(base), batch)) for batch in batches)
        if not any(teaches(now) and not same(now, before) for now, before in found):
            silent.append(part)
    assert silent == [], " ".join(silent)


def teaches(updates: Sequence[Update]) -> bool:
    """Whether some token has a gradient."""
    return any(bool(update.gradient.any()) for update in updates)


# ---- a policy that has not moved, and what is read -------------------------------------------------------------------


def test_an_unmoved_policy_needs_no_old_log_probs_and_no_current_statistics() -> None:
    def law(expression: str) -> None:
        objective = parse(expression)
        assert objective.needs == objective.requires(on_policy=False) >= objective.requires(on_policy=True)
        for seed in range(2):
            batch = token_batch(random_case(seed, moved=False))
            at_old = batch.with_fields(logp=batch.logp_old, entropy=batch.entropy_old)
            expected = objective.token_gradients(at_old)
            assert all(map(torch.equal, objective.token_gradients(batch), expected))
            if "logp_old" not in objective.requires(on_policy=True):
                found = objective.token_gradients(at_old.with_fields(logp_old=None, on_policy=True))
                assert all(map(torch.equal, found, expected))

    of_each([*VARIANTS, *PARTS], law)
    for expression in ("justrl", "gspo", "cispo", "nft", "dr_grpo", "grpo"):
        assert "logp_old" in parse(expression).requires(on_policy=False) - parse(expression).requires(on_policy=True)
        with pytest.raises(ObjectiveError, match="reads the field logp_old"):
            unsaid = at_current(token_batch(random_case(1, moved=False))).with_fields(logp_old=None)
            parse(expression).token_gradients(unsaid)


PLAIN = [
    *(expression for expression in VARIANTS if {"clip", "unclipped"} & {part.name for part in parse(expression).parts}),
    "grpo+dual_clip",
    "cispo(low=0.2,high=0.2)",
]


def test_tokens_that_nothing_touches_have_the_plain_gradient() -> None:
    """Where neither bounds, masks nor weights act, it is the ratio's times advantage over the denominator."""

    def law(expression: str) -> int:
        objective, checked = without_penalties(expression), 0
        for seed in range(4):
            batch = at_current(token_batch(random_case(seed)))
            for update in objective.passes(objective.prepare(batch)):
                plan = objective.plan(update)
                logp = plan.batch.logp.clone().requires_grad_()
                found = objective.touched(plan, slice(None), logp)
                free = plan.batch.mask & ~torch.stack([mask for name, mask in found.items() if name != "lopti"]).any(0)
                if plan.batch.policy_mask is not None:
                    free &= plan.batch.policy_mask
                (slope,) = torch.autograd.grad(objective.the(Ratio).ratio(plan.batch, logp).sum(), logp)
                (gradient,) = torch.autograd.grad(objective.loss(plan, slice(None), logp), logp)
                expected = plan.policy_coefficient * slope * plan.batch.advantage
                torch.testing.assert_close(-gradient[free], expected[free], rtol=1e-12, atol=0)
                checked += int((expected[free] != 0).sum())
        return checked

    free = sum(law(expression) > 0 for expression in PLAIN)
    assert free > 2 / 3 * len(PLAIN)  # the others touch every token


OPTIONAL = {item.name for item in fields(TokenBatch) if item.default is None} - {
    *("group", "reward", "length", "logp", "advantage", "selected", "policy_mask", "penalty_mask")
}


def test_fields_that_are_not_declared_are_not_read_and_others_are_asked_for_by_name() -> None:
    def law(expression: str) -> None:
        objective, batch = parse(expression), batch_of(SEEDS[0], torch.float64)
        unread = OPTIONAL - objective.needs
        expected = evaluate(objective, batch)
        entropy = {"entropy": batch.entropy} if "entropy" in unread else {}
        assert same(evaluate(objective, batch.with_fields(**{**dict.fromkeys(unread), **entropy})), expected)
        for field in sorted(objective.needs & OPTIONAL):
            readers = [part.name for part in objective.parts if field in part.needs | part.reads_once_moved]
            said = f"({'|'.join(readers)}) reads the field {field}, which this batch lacks"
            with pytest.raises(ObjectiveError, match=said):
                objective.token_gradients(batch.with_fields(**{field: None}))

    of_each([*VARIANTS, *PARTS], law)


# ---- exact zeros -----------------------------------------------------------------------------------------------------


def test_dropped_rows_have_no_influence() -> None:
    def law(expression: str) -> None:
        objective = parse(expression)
        batches = (token_batch(case) for case in map(random_case, range(100)) if case.logp is not None)
        batch = next(batch for batch in batches if 0 < objective.select(batch).selected.sum() < len(batch.mask))
        selected = objective.select(batch).selected
        whole = evaluate(objective, batch)
        spoiled = {
            name: torch.where(selected[:, None], field, torch.nan)
            for name, field in batch.token_fields().items()
            if field.is_floating_point()
        }
        assert same(evaluate(objective, batch.with_fields(**spoiled)), whole)
        if "extreme_pairs" not in {part.name for part in objective.parts}:  # which would drop the outermost of the rest
            assert agree(evaluate(objective, batch.rows(selected)), of_tokens(whole, selected))
        assert all((update.gradient[~selected] == 0).all() for update in whole)

    of_each([it for it in (*RECIPES, *PARTS, *SAMPLE_PAIRS[::4]) if parse(it).refills], law)


def test_rewards_that_are_equal_or_the_groups_mean_have_an_advantage_of_exactly_zero() -> None:
    for expression in ("grpo-kl", "group_center-kl"):
        for dtype in (torch.float64, torch.float32):
            for size in (2, 3, 5, 6, 7, 8, 9):
                for reward in (0.1, 0.7, -1 / 3, 1e-9, 1e9 + 0.1, 1.0, 0.0):
                    rewards = torch.full((size + 2,), reward, dtype=dtype)
                    rewards[-1] = 5.0
                    group = torch.tensor([4] * size + [1, 1])
                    batch = TokenBatch(mask=torch.ones(size + 2, 2).bool(), group=group, reward=rewards)
                    advantage = parse(expression).prepare(batch).advantage
                    assert (advantage[:size] == 0).all() and (advantage[size:] != 0).all(), (size, reward)
            rewards = torch.tensor([0.1, 0.2, 0.3, 0.3, 0.7, 1.1, -0.1, 0.0, 0.1], dtype=dtype)
            batch = TokenBatch(mask=torch.ones(9, 2).bool(), group=torch.arange(9) // 3, reward=rewards)
            advantage = parse(expression).prepare(batch).advantage
            assert (advantage[1::3] == 0).all() and (advantage[0::3] != 0).all()


HELD = ("gvpo", "tpo")
"""Whose loss holds a policy that has moved near the old one, whatever the rewards."""


def test_equal_rewards_have_no_policy_gradient_where_advantages_are_centred() -> None:
    def law(expression: str) -> None:
        objective = without_penalties(expression)
        case = random_case(5, moved=not expression.startswith(HELD))
        equal = {"reward": np.full(len(case.reward), 0.1), "rewards": np.full(case.rewards.shape, 0.1)}
        batch = token_batch(replace(case, **equal, max_length=1000))
        surrogate = next(part for part in objective.parts if hasattr(part, "follows_advantage"))
        charged = {"kl_reward", "teacher_advantage", "turn_advantage"} & {part.name for part in objective.parts}
        if not surrogate.follows_advantage or "reward" not in objective.the(Advantage).needs:
            batch = batch.with_fields(correct=torch.ones_like(batch.correct))
        updates = evaluate(objective, batch)
        if charged:
            assert any((update.gradient != 0).any() for update in updates)
        elif objective.the(Advantage).centred:
            assert all((update.gradient == 0).all() for update in updates)
            assert expression.startswith("tpo") or all(update.loss == 0 for update in updates)

    of_each(VARIANTS, law)


@pytest.mark.parametrize("base", at_night(FEW, RECIPES))
def test_masked_tokens_have_no_policy_gradient(base: str) -> None:
    masks = {name.split("(")[0]: name for name in PARTS if any(isinstance(part, Mask) for part in parse(name).parts)}
    assert len(masks) >= 3
    for mask, addition in masks.items():
        objective, masked = without_penalties(f"{base}+{addition}"), 0
        for seed in range(60):
            if seed >= 6 and masked:
                break
            for update in objective.passes(objective.prepare(at_current(token_batch(random_case(seed))))):
                plan = objective.plan(update)
                assert (objective.token_gradient(plan)[plan.touched[mask]] == 0).all()
                masked += int(plan.touched[mask].sum())
        assert masked > 0


def test_only_what_declares_it_learns_what_an_environment_wrote() -> None:
    def law(expression: str) -> None:
        objective, learns = parse(expression), False
        for seed in range(3):
            case = with_holes(random_case(seed, extreme=False, moved=True), np.random.default_rng(seed))
            written = torch.from_numpy(case.writer == Writer.ENVIRONMENT)
            learns |= any((update.gradient[written] != 0).any() for update in evaluate(objective, token_batch(case)))
        assert learns == objective.learns_observations == (expression in ("echo", "observation_nll"))

    of_each([*RECIPES, *PARTS], law)


# ---- Lopti's passes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", at_night([*FEW, "stapo", "lopti"], RECIPES))
def test_loptis_passes_add_up_to_the_joint_gradient(base: str) -> None:
    for setting, extra in (
        ("", ""),
        ("(eta=0.3)", "+entropy_bonus(coefficient=0.01)"),
        ("(portion=0.4)", "+kl(beta=0.1)"),
        ("(order=high_first)", "+entropy_bonus+kl+cov_penalty(fraction=0.5)"),
    ):
        split = parse(f"{base}{extra}+lopti{setting}")
        joint = parse(f"{base}{extra}-lopti" if base == "lopti" else f"{base}{extra}+single_pass")
        for seed in range(2):
            batch = token_batch(random_case(seed, moved=True))
            (whole,) = evaluate(joint, batch)
            first, second = evaluate(split, batch)
            for name in ("gradient", "entropy_gradient"):
                both = getattr(first, name) + getattr(second, name)
                torch.testing.assert_close(both, getattr(whole, name), rtol=1e-14, atol=1e-15)
            assert not ((first.gradient != 0) & (second.gradient != 0)).any()
