"""The laws for everything in the zoo: a new method joins by being registered.

Laws 1 and 4, how a batch is held and exact zeros, are functions in `laws`; `test_all_pairs` holds every pair to them.
"""

import math
import re
from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from objectives import Advantage, Mask, Objective, ObjectiveError, TokenBatch, Writer, parse
from objectives.zoo import PARTS as REGISTERED
from tests.objectives.batches import random_case, token_batch, with_holes
from tests.objectives.comparison import at_current, evaluate, same
from tests.objectives.laws import DTYPES, LAWS, SEEDS, agree, batch_of, of_tokens, without_penalties
from tests.objectives.mistakes import given
from tests.objectives.zoo_sample import PARTS, RECIPES, REFUSED_PAIRS, SAMPLE, VARIANTS
from tests.thinned import thinned

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


@pytest.mark.parametrize(
    "expression",
    [*thinned(SAMPLE, 8, slow=4), *LARGE_SHARES],
)
def test_the_zoo_obeys(expression: str) -> None:
    for law in LAWS.values():
        law(expression)


def test_recipes_that_do_not_go_together_are_refused_in_one_line_whose_remedy_works() -> None:
    for expression in REFUSED_PAIRS:
        check_refusal(expression)


def check_refusal(expression: str) -> None:
    with pytest.raises(ObjectiveError) as raised:
        parse(expression)
    message = str(raised.value)
    assert "\n" not in message
    removal = re.search(r": add (-[\w-]+)$", message)
    if removal:
        parse(expression + removal[1])
    else:
        assert re.search(r": leave (one of them|it) out", message)


@pytest.mark.parametrize("expression", [*thinned([*VARIANTS, *PARTS], 6, slow=3), *LARGE_SHARES])
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
    ("stapo(variant=justrl)-s2t", "justrl(variant=authors)"),
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
    ("lopti-lopti+ar", "ar"),
    ("grpo+clip_higher+token_mean-kl", "justrl"),
    ("grpo+justrl-kl", "justrl"),
    ("clip", "grpo"),
    ("s2t", "grpo+s2t"),
]


@pytest.mark.parametrize(("first", "second"), EQUAL)
def test_identities_of_composition(first: str, second: str) -> None:
    assert parse(first) == parse(second) and parse(first).key == parse(second).key
    assert parse(parse(first).expression) == parse(parse(second).expression)  # which keep the names that were typed


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
    "clip_cov(low=1e9,high=2e9)",
    "cov_penalty(beta=0)",
    "kl_reward(beta=0)",
    "entropy_advantage(alpha=0)",
    "positive_nll(mu=0)",
    "answer_filter(keep=all)",
]


def _on(base: str, addition: str) -> tuple[Objective, Objective] | None:
    """The base without the added part, and with it; None where the base has no use for it."""
    part = addition.split("(")[0].replace("stare", "surprisal_reweighting")
    try:
        changed = parse(f"{base}+{addition}")
    except ObjectiveError:
        return None
    assert part in {other.name for other in changed.parts}
    return Objective(tuple(other for other in changed.parts if other.name != part)), changed


NEUTRAL_ON = {base: [found for addition in NEUTRAL if (found := _on(base, addition))] for base in RECIPES}


@pytest.mark.parametrize("base", thinned(RECIPES, 9, slow=3))
def test_neutral_settings_leave_the_gradient_bitwise_unchanged(base: str) -> None:
    for seed in range(4):
        case = random_case(seed, moved=True)
        batch = token_batch(replace(case, entropy_old=case.entropy_old + 1e-6))
        for plain, changed in NEUTRAL_ON[base]:
            assert same(evaluate(changed, batch), evaluate(plain, batch)), changed


def test_neutral_settings_are_tried_on_most_recipes() -> None:
    assert sum(map(len, NEUTRAL_ON.values())) > 0.9 * len(RECIPES) * len(NEUTRAL)


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


# ---- law 3: a policy that has not moved, and what is read ------------------------------------------------------------


@pytest.mark.parametrize("expression", VARIANTS)
def test_an_unmoved_policy_needs_no_old_log_probs_and_no_current_statistics(expression: str) -> None:
    objective = parse(expression)
    for seed in range(4):
        batch = token_batch(random_case(seed, moved=False))
        at_old = batch.with_fields(logp=batch.logp_old, entropy=batch.entropy_old)
        expected = objective.token_gradients(at_old)
        assert all(torch.equal(a, b) for a, b in zip(objective.token_gradients(batch), expected, strict=True))
        if "logp_old" not in objective.requires(on_policy=True):
            found = objective.token_gradients(at_old.with_fields(logp_old=None, on_policy=True))
            assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("expression", VARIANTS)
def test_the_push_of_an_unmoved_policy_is_the_advantage_over_the_denominator(expression: str) -> None:
    objective = without_penalties(expression)
    for seed in range(4):
        batch = at_current(token_batch(random_case(seed, moved=False)))
        batch = batch.with_fields(logp_sampler=batch.logp_old)
        for update in objective.passes(objective.prepare(batch)):
            plan = objective.plan(update)
            expected = plan.policy_coefficient * plan.batch.advantage
            if expression.startswith("nft"):
                expected = (
                    plan.policy_coefficient * objective.advantages(batch.with_fields(reward=batch.correct))[:, None]
                )
            elif not plan.follows_advantage:
                expected = plan.policy_coefficient * plan.extra["push"][:, None]
            elif expression.startswith("symmetric_loss"):
                expected = 0.9 * expected  # alpha + beta
            torch.testing.assert_close(objective.push(plan), expected, rtol=1e-12, atol=1e-15)


OPTIONAL = {item.name for item in fields(TokenBatch) if item.default is None} - {
    "group",
    "reward",
    "length",
    "logp",
    "advantage",
    "selected",
    "policy_mask",
    "penalty_mask",
}


@pytest.mark.parametrize("expression", [*VARIANTS, *PARTS])
def test_fields_that_are_not_declared_are_not_read_and_others_are_asked_for_by_name(expression: str) -> None:
    objective, batch = parse(expression), batch_of(SEEDS[0], torch.float64)
    unread = OPTIONAL - objective.needs
    expected = evaluate(objective, batch)
    entropy = {"entropy": batch.entropy} if "entropy" in unread else {}
    assert same(evaluate(objective, batch.with_fields(**{**dict.fromkeys(unread), **entropy})), expected)
    for field in sorted(objective.needs & OPTIONAL):
        readers = [part.name for part in objective.parts if field in part.needs | part.reads_once_moved]
        with pytest.raises(
            ObjectiveError, match=f"({'|'.join(readers)}) reads the field {field}, which this batch lacks"
        ):
            objective.token_gradients(batch.with_fields(**{field: None}))


# ---- law 4: exact zeros ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("expression", [expression for expression in SAMPLE if parse(expression).refills])
def test_dropped_rows_have_no_influence(expression: str) -> None:
    objective = parse(expression)
    batches = (token_batch(case) for case in map(random_case, range(100)) if case.logp is not None)
    batch = next(batch for batch in batches if 0 < objective.select(batch).selected.sum() < len(batch.mask))
    selected = objective.select(batch).selected
    whole = evaluate(objective, batch)
    spoiled = {
        name: torch.where(selected[:, None], field, math.nan)
        for name, field in batch.token_fields().items()
        if field.is_floating_point()
    }
    assert same(evaluate(objective, batch.with_fields(**spoiled)), whole)
    left = of_tokens(whole, selected)
    if "extreme_pairs" not in {part.name for part in objective.parts}:  # which would drop the outermost of what is left
        assert agree(evaluate(objective, batch.rows(selected)), left)
    assert all((update.gradient[~selected] == 0).all() for update in whole)


@pytest.mark.parametrize("dtype", DTYPES, ids=["float64", "float32"])
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


@pytest.mark.parametrize("expression", [*RECIPES, *PARTS])
def test_only_what_declares_it_learns_what_an_environment_wrote(expression: str) -> None:
    objective, learns = parse(expression), False
    for seed in range(3):
        case = with_holes(random_case(seed, extreme=False, moved=True), np.random.default_rng(seed))
        written = torch.from_numpy(case.writer == Writer.ENVIRONMENT)
        learns |= any(bool((update.gradient[written] != 0).any()) for update in evaluate(objective, token_batch(case)))
    assert learns == objective.learns_observations == (expression in ("echo", "observation_nll"))


def heard_as_written(batch: TokenBatch, *more: object) -> tuple[object, ...]:
    """The batch whose environment is taken for the policy."""
    assert batch.writer is not None
    return (batch.with_fields(mask=batch.writer != Writer.NONE, length=(batch.writer != Writer.NONE).sum(1)), *more)


@pytest.mark.parametrize(
    ("expression", "part", "attribute"),
    [("dapo", "soft_overlong", "shaping"), ("entropy20", "top_entropy", "keeps")],
    ids=["length", "quantile"],
)
def test_a_length_or_a_quantile_that_counts_what_an_environment_wrote_is_caught(
    expression: str, part: str, attribute: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    law = LAWS["the_number_of_tokens_that_an_environment_wrote_changes_nothing"]
    law(expression)
    wrong = given(heard_as_written)(getattr(REGISTERED[part], attribute))
    monkeypatch.setattr(REGISTERED[part], attribute, wrong)
    with pytest.raises(AssertionError):
        law(expression)


HELD = ("gvpo", "tpo")
"""Whose loss holds a policy that has moved near the old one, whatever the rewards."""


@pytest.mark.parametrize("expression", VARIANTS)
def test_equal_rewards_have_no_policy_gradient_where_advantages_are_centred(expression: str) -> None:
    objective = without_penalties(expression)
    case = random_case(5, moved=not expression.startswith(HELD))
    equal = {"reward": np.full(len(case.reward), 0.1), "rewards": np.full(case.rewards.shape, 0.1)}
    batch = token_batch(replace(case, **equal, max_length=1000))
    surrogate = next(part for part in objective.parts if hasattr(part, "follows_advantage"))
    charged = bool({"kl_reward", "teacher_advantage", "turn_advantage"} & {part.name for part in objective.parts})
    centred = not charged and objective.the(Advantage).centred
    if not surrogate.follows_advantage or "reward" not in objective.the(Advantage).needs:
        batch = batch.with_fields(correct=torch.ones_like(batch.correct))
    updates = evaluate(objective, batch)
    if centred:
        assert all((update.gradient == 0).all() for update in updates)
        assert expression.startswith("tpo") or all(update.loss == 0 for update in updates)
    elif charged:
        assert any((update.gradient != 0).any() for update in updates)


@pytest.mark.parametrize("base", thinned(RECIPES, 8, slow=4))
def test_silenced_tokens_have_no_policy_gradient(base: str) -> None:
    masks = {name.split("(")[0]: name for name in PARTS if any(isinstance(part, Mask) for part in parse(name).parts)}
    assert len(masks) >= 3
    for mask, addition in masks.items():
        objective, silenced = without_penalties(f"{base}+{addition}"), 0
        for seed in range(60):
            if seed >= 10 and silenced:
                break
            for update in objective.passes(objective.prepare(at_current(token_batch(random_case(seed))))):
                plan = objective.plan(update)
                assert (objective.push(plan)[plan.touched[mask]] == 0).all()
                silenced += int(plan.touched[mask].sum())
        assert silenced > 0


@pytest.mark.parametrize("expression", LARGE_SHARES)
def test_the_tokens_chosen_are_the_same_in_any_order_and_padding(expression: str) -> None:
    objective, chosen = parse(expression), 0
    for seed in range(6):
        batch = at_current(token_batch(random_case(seed, moved=True)))
        order = torch.randperm(len(batch.mask), generator=torch.Generator().manual_seed(seed))
        plan, other = (
            objective.plan(objective.passes(objective.prepare(one))[0]).touched for one in (batch, batch.rows(order))
        )
        assert all(torch.equal(other[name], tokens[order]) for name, tokens in plan.items())
        chosen += sum(int(tokens.sum()) for tokens in plan.values())
    assert chosen > 0 or not plan


# ---- law 5: Lopti's passes -------------------------------------------------------------------------------------------


SETTINGS = [
    ("", ""),
    ("(eta=0.3)", "+entropy_bonus(coefficient=0.01)"),
    ("(portion=0.4)", "+kl(beta=0.1)"),
    ("(order=high_first)", "+entropy_bonus+kl+cov_penalty(fraction=0.5)"),
]


@pytest.mark.parametrize(("setting", "extra"), SETTINGS)
@pytest.mark.parametrize("base", thinned(RECIPES, 3, slow=4))
def test_loptis_passes_add_up_to_the_joint_gradient(base: str, setting: str, extra: str) -> None:
    split = parse(f"{base}{extra}+lopti{setting}")
    joint = parse(f"{base}{extra}-lopti" if base == "lopti" else f"{base}{extra}+single_pass")
    for seed in range(3):
        batch = token_batch(random_case(seed, moved=True))
        (whole,) = evaluate(joint, batch)
        first, second = evaluate(split, batch)
        for both, joined in (
            (first.gradient + second.gradient, whole.gradient),
            (first.entropy_gradient + second.entropy_gradient, whole.entropy_gradient),
        ):
            torch.testing.assert_close(both, joined, rtol=1e-14, atol=1e-15)
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
