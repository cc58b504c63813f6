"""Numbers that papers, other libraries and calculations by hand give: gradients, losses, advantages and bounds.

Batch Z is one group of four responses with advantages of their own, batch R three groups of four with rewards. What a
reference holds on random batches (`test_references`) is here only where somebody else printed the number.
"""

import json
import math
from pathlib import Path

import pytest
import torch
from torch.nn import functional

from objectives import Prepared, TokenBatch, lots, parse, uniform_of
from objectives.zoo import PARTS
from tests.objectives.batches import random_case, token_batch
from tests.objectives.vectors import (
    PER_BATCH,
    PER_RESPONSE,
    assert_close,
    batch_r,
    batch_z,
    loss_of,
    prepared,
    pushes,
    rollouts_z,
    small_batch,
    tokens,
)

# ---- batch Z ---------------------------------------------------------------------------------------------------------

PRINTED = json.loads(Path(__file__).with_name("printed_numbers.json").read_text())
"""Expression -> of batch Z what its gradients are multiplied by, and the rows of the product; its loss there; and its
advantages on batch R."""
OF_FEWER_DIGITS = ("gspo(norm=sum,low=0.2,high=0.2)+seq_sum", "rloo(variant=trl)")
RATIOS_Z = [1.0512711, 1.3498588, 0.67032005, 3.3201169]
SECOND, THIRD, FOURTH = [-0.37040911, -0.55258546], [-1.8221188, -12.182494, -0.95122942], [0.49009934]
"""Ratio times advantage of the tokens of batch Z."""

SAME = [
    ("ce_gppo(beta1=0,beta2=0)", 1, "justrl+clip_higher(high=0.2)+dual_clip(cap=10)"),
    ("cispo(high=1e9)", 1, "grpo+unclipped+token_mean-kl"),
    ("dg(eta=1e9)", 1 / 2, "dg-delight"),
    ("dppo(delta=1,cap=5)+token_ratio", 1, "cispo"),
    ("dr_grpo+seq_sum", 5, "dr_grpo(length=5)"),
    ("gmpo(low=1e9,high=1e9)", 1, "grpo-kl+sequence_ratio+unclipped"),
    ("luspo", PER_RESPONSE / 4, "gspo(low=2e-3,high=2.5e-3)"),
    ("rec(variant=is)", 1, "grpo+token_mean-kl"),
    ("symmetric_loss", 0.9, "grpo-kl+token_mean"),
    ("symmetric_loss(alpha=1,beta=1)", 2, "grpo-kl+token_mean"),
]
"""An objective whose gradient is that many times another's."""


def test_gradients_and_losses_are_the_printed_ones() -> None:
    factors = {"length": PER_RESPONSE / 4, "4 length": PER_RESPONSE}
    for expression, (factor, *rows) in PRINTED["gradients"].items():
        digits = 1e-6 if expression in OF_FEWER_DIGITS else 1e-7
        assert_close(pushes(expression, factors.get(factor, factor)), *rows, digits=digits, told=expression)
    for expression, value in PRINTED["losses"].items():
        assert loss_of(expression) == pytest.approx(value, abs=1e-7 if "trl" in expression else 1e-8), expression
    assert -(pushes("vespo", 1.0) * batch_z().logp).sum().item() == pytest.approx(-0.06547326, abs=1e-8)


def test_settings_in_which_a_method_is_another_one() -> None:
    for first, factor, second in SAME:
        expected = factor * pushes(second, 1.0)
        torch.testing.assert_close(pushes(first, 1.0), expected, msg=f"{first} is not {second}")
    unfiltered = pushes("clip(low=3e-4)+clip_higher(high=4e-4)-kl", PER_RESPONSE)
    torch.testing.assert_close(pushes("kpo(q=1e12)", PER_RESPONSE), unfiltered, rtol=1e-9, atol=1e-9)


def test_dppo_drops_by_the_change_of_a_probability() -> None:
    exact = batch_z().with_fields(logp_sampler=batch_z().logp_old)
    for expression, rows in {
        "dppo(variant=trl)": ([*RATIOS_Z[:1], 0, *RATIOS_Z[2:]], [0, -0.55258546], THIRD, FOURTH),
        "dppo(variant=trl,kind=kl,delta=0.05)": ([RATIOS_Z[0], 0, RATIOS_Z[2], 0], [0, -0.55258546], THIRD, FOURTH),
        "dppo(delta=0.1,side=both)": ([RATIOS_Z[0], 0, RATIOS_Z[2], 0], [0, SECOND[1]], [0, 0, THIRD[2]], FOURTH),
        "dppo(variant=prime_rl)": (
            *([1.0511711, -0.0006, 0.67112005, 3.3177169], [0.0006, -0.55278546]),
            *([-1.8233188, -12.187494, -0.95112942], [0.49013934]),
        ),
    }.items():
        assert_close(pushes(expression, PER_BATCH, exact), *rows, told=expression)
    now, sampled = tokens([0.02, 0.25, 0.1, 0.8, 0.7, 0.999]), tokens([0.01, 0.05, 0.3, 0.5, 0.9, 0.99])
    batch = small_batch(now, [1.0], [0], logp_sampler=sampled.log())
    for sign, kept in ((1.0, [1, 0, 1, 0, 1, 1]), (-1.0, [1, 1, 0, 1, 0, 1])):
        for setting in ("", "(kind=kl,delta=0.05)"):
            found = pushes(f"dppo{setting}", 6.0, prepared(batch, sign * torch.ones_like(now)))
            assert (found != 0).int().tolist() == [kept], "a rare one may double, a probable one may not fall"


def test_tokens_of_a_sequence_with_advantages_of_their_own_are_clipped_one_by_one() -> None:
    batch = batch_z(tokens([1, 1, -1, 1], [-0.5, -0.5], [-1, 0.5, -1], [0.5]))
    rows = ([0, 0, -1.3330906, 0], [0, 0], [-2.7639662, 0, -2.7639662], FOURTH)
    assert_close(pushes("gspo", PER_RESPONSE, batch), *rows)
    assert loss_of("gspo", batch) == pytest.approx(0.31715852, abs=1e-8)


def test_the_published_table_of_aspos_code() -> None:
    for advantage, ratios, expected in (
        (1.0, [0.2, 0.3, 0.5, 0.81, 1, 1.19, 1.21], [3, 3, 2, 1.2345679, 1, 0.8403361, 0]),
        (-1.0, [0.2, 0.79, 0.81, 1, 1.5, 2.9, 3.5], [0, 0, -0.81, -1, -1.5, -2.9, -3]),
    ):
        probability = torch.full((1, 7), 0.1, dtype=torch.float64)
        rollouts = small_batch(probability, [1.0], [0], logp=probability.log() + tokens(ratios).log())
        assert_close(pushes("aspo-kl", 7.0, prepared(rollouts, advantage * torch.ones_like(probability))), expected)


def test_a_regression_and_a_target_are_at_rest_in_their_optimum() -> None:
    batch, share = batch_z(), batch_z().advantage / batch_z().mask.sum(1, keepdim=True) * batch_z().mask
    moved = batch.with_fields(logp=batch.logp_old + share / 0.5)
    assert pushes("gvpo(beta=0.5)", 1.0, moved).abs().max() < 1e-12
    assert pushes("tpo", 1.0, batch.with_fields(logp=batch.logp_old + share)).abs().max() < 1e-12


def test_tpo_is_the_sketch_that_its_paper_prints() -> None:
    batch, eta = batch_z(), 0.5
    logp = batch.logp.clone().requires_grad_()
    now, old = ((values * batch.mask).sum(1) for values in (logp, batch.logp_old))
    target = functional.softmax(functional.log_softmax(old, -1) + batch.advantage[:, 0] / eta, -1)
    (expected,) = torch.autograd.grad(-(target * functional.log_softmax(now, -1)).sum(-1), logp)
    torch.testing.assert_close(pushes(f"tpo(eta={eta})", 1.0), -expected)


def test_the_gradient_ends_at_the_clip_bound_and_not_before() -> None:
    for expression, advantage, last, bounded in (
        ("justrl", 1, 1.28, True),
        ("justrl", -1, 0.8, False),
        ("justrl(variant=authors)", -1, 10.0, True),
        ("grpo+dual_clip-kl", -1, 3.0, True),
        ("grpo-kl", 1, 1.2, True),
        ("ar-kl", 1, 1.24, True),
    ):
        inside, outside = (1 - 1e-9, 1 + 1e-9) if bounded else (1 + 1e-9, 1 - 1e-9)
        batch = small_batch(tokens([0.01, 0.01], [0.01, 0.01]), [advantage, -advantage], [0, 0])
        ratios = tokens([last * inside, last * outside], [last * inside, last * outside])
        (found,) = parse(expression).token_gradients(batch.with_fields(logp=batch.logp_old + ratios.log()))
        assert found[0, 0] * advantage > 0 and found[0, 1] == 0, expression
    on_the_bound = small_batch(tokens([0.5], [0.5]), [1, -1], [0, 0])
    assert (parse("grpo(low=0)-kl").token_gradients(on_the_bound)[0] != 0).all()


def test_real_stays_finite_at_a_tiny_temperature() -> None:
    batch = token_batch(random_case(3, moved=True), torch.float32)
    assert all(gradient.isfinite().all() for gradient in parse("real(tau=0.01)").token_gradients(batch))


# ---- advantages ------------------------------------------------------------------------------------------------------


def test_advantages_are_the_printed_ones() -> None:
    for expression, expected in PRINTED["advantages"].items():
        assert parse(expression).advantages(batch_r()).tolist() == pytest.approx(expected, abs=1e-7), expression
    charged = tokens([0.66666667, -0.66, -0.66, 0.65333333])[0]
    for expression, expected in (("rloo(beta=0.05)", charged), ("grpo+group_center+kl_reward", charged * 3 / 4)):
        torch.testing.assert_close(parse(expression).advantages(rollouts_z()), expected, rtol=0, atol=1e-8)
    assert_close(
        parse("reinforce_pp(beta=0.05)").advantages(rollouts_z()) * batch_z().mask,
        [0.99993402, 1.0100089, 0.98985912, 1.0200838],
        [-1.0049715, -0.99993402],
        [-1.0049715, -1.0049715, -0.98482167],
        [0.97978422],
    )


def group_of(right: int, size: int, wrong: float = 0.0) -> TokenBatch:
    """One group, some of whose responses are right."""
    reward = torch.tensor([1.0] * right + [wrong] * (size - right), dtype=torch.float64)
    zeros = torch.zeros(size, dtype=torch.long)
    return TokenBatch(mask=torch.ones(size, 2).bool(), group=zeros, reward=reward, correct=(reward == 1).double())


def test_the_printed_case_tables() -> None:
    z_scores = {1: 2.4749, 2: 1.6202, 3: 1.2076, 4: 0.9354, 5: 0.7246, 6: 0.5401, 7: 0.3536}
    for right, advantage in z_scores.items():
        for wrong in (-1.0, 0.0):
            found = parse("grpo-kl").advantages(group_of(right, 8, wrong))
            assert found[0].item() == pytest.approx(advantage, abs=1e-4)
    found = parse("passk(k=4)").advantages(group_of(2, 8)).tolist()
    assert found == pytest.approx([0.5222317] * 2 + [-0.17407723] * 6, abs=1e-7)
    for right in (0, 5, 6, 8):
        assert (parse("passk(k=4)").advantages(group_of(right, 8)) == 0).all()
    for alpha, weights in ((0.3, [0.715, 0.79, 0.85, 0.97, 1]), (0.1, [0.905, 0.93, 0.95, 0.99, 1])):
        batch = small_batch(tokens([0.05, 0.3, 0.5, 0.9, 1.0], [0.05, 0.3, 0.5, 0.9, 1.0]), [1, -1], [0, 0])
        found = parse(f"justrl+ar(alpha={alpha})").prepare(batch).advantage * (math.sqrt(2) + 1e-6)
        torch.testing.assert_close(found, tokens(weights, [-weight for weight in weights]))


def test_a_groups_tokens_give_hapos_mean_and_deviation_unless_an_advantage_is_large() -> None:
    for setting, lengths, right, expected in (
        ("", [10, 30, 40, 20], [0, 3], [1.5275, -0.6547, -0.6547, 1.5275]),
        ("", [100] + [400] * 15, [0], [3.75] + [-0.25] * 15),
        ("(guard=9)", [100] + [400] * 15, [0], [7.7459] + [-0.1291] * 15),
    ):
        mask = torch.arange(400) < torch.tensor(lengths)[:, None]
        reward = torch.zeros(len(lengths), dtype=torch.float64)
        reward[right] = 1.0
        batch = TokenBatch(mask=mask, group=torch.zeros(len(lengths)).long(), reward=reward)
        found = parse(f"token_group_norm{setting}").advantages(batch).tolist()
        assert found == pytest.approx(expected, abs=1e-4)


def test_a_million_tokens_do_not_drown_small_advantages() -> None:
    for dtype in (torch.float32, torch.float64):
        reward = torch.ones(1000, dtype=dtype)
        reward[:20] = 0.0
        batch = TokenBatch(mask=torch.ones(1000, 1000).bool(), group=torch.arange(1000) // 4, reward=reward)
        found = parse("reinforce_pp-kl_reward").advantages(batch)
        assert found[-1].item() == pytest.approx(0.02 / (0.02 * 0.98) ** 0.5, rel=1e-3)


def test_rewards_are_normalised_each_by_itself_and_weighed_as_the_run_weighs_them() -> None:
    rewards = tokens([1, 0], [1, 1], [0, 0], [0, 1])
    batch = small_batch(tokens([0.5], [0.5], [0.5], [0.5]), [1.0, 2.0, 0.0, 1.0], [0] * 4, rewards=rewards)
    scores = (rewards - rewards.mean(0)) / (rewards.std(0) + 1e-4)
    for weights in ((1.0, 1.0), (1.0, 0.25)):
        total = scores @ tokens([*weights])[0]
        found = parse("gdpo").advantages(batch.with_fields(reward_weights=weights))
        torch.testing.assert_close(found, total / (total.std() + 1e-4))
    larger = batch.with_fields(reward_weights=weights, rewards=rewards * tokens([1, 100]))
    torch.testing.assert_close(parse("gdpo").advantages(larger), found, rtol=1e-3, atol=0)


def test_the_success_is_that_of_the_group_with_its_dropped_responses() -> None:
    batch, objective = (
        rollouts_z().with_fields(truncated=torch.tensor([True, False, False, False])),
        parse("nft+overlong_filter"),
    )
    assert objective.plan(objective.prepare(batch)).extra["success"].tolist() == [0.5] * 4


def test_a_share_that_falls_between_two_responses_takes_the_upper() -> None:
    reward = torch.arange(5).double()
    batch = batch_r().rows(slice(5)).with_fields(reward=reward, group=torch.zeros(5).long(), correct=reward)
    for q, baseline in ((0.4, 1), (0.41, 2), (0.2, 0), (1e-12, 0), (0.99, 4)):
        found = parse(f"qae(q={q})").advantages(batch).argwhere().flatten().tolist()
        assert found == [row for row in range(5) if row != baseline]


# ---- bounds, filters and thresholds ----------------------------------------------------------------------------------


def test_bapos_bounds_widen_until_the_target_is_reached() -> None:
    ratios, advantage = tokens([0.5, 0.7, 1.5, 2.5, 0.4, 0.9, 1.3]), tokens([0.5, 0.5, 0.5, 0.5, -1, -1, -1.5])
    even, improbable = torch.full((1, 7), 0.1, dtype=torch.float64), tokens([1e-3] * 4 + [0.9] * 3)
    for expression, old, lower, upper in (
        ("bapo(weighted=false)", even, 0.6, 1.9),
        ("bapo(variant=authors)", even, 0.95, 1.4),
        ("bapo(weighted=false,target=0)", even, 0.6, 1.2),
        ("bapo(weighted=false,target=0.9)", even, 0.9, 3.0),
        ("bapo(weighted=false,first=lower)", even, 0.9, 2.3),
        ("bapo(weighted=false)", improbable, 0.6, 1.9),
        ("bapo", improbable, 0.9, 3.0),
    ):
        rollouts = small_batch(old, [1.0], [0], logp=old.log() + ratios.log())
        bounds = parse(expression).plan(prepared(rollouts, advantage)).bounds
        assert (1 + bounds.high).item() == pytest.approx(upper), expression
        assert (1 - bounds.low).item() == pytest.approx(lower), expression


def test_dcpos_bounds_follow_the_old_probability() -> None:
    old = small_batch(tokens([0.05, 0.2, 0.5, 0.9, 1.0]), [1.0], [0])
    bounds = parse("dcpo-dual_clip").plan(prepared(old, torch.ones(1, 5).double())).bounds
    assert_close(1 - bounds.low, [0.5, 0.5, 0.5, 0.76874192, 0.8])
    assert_close(1 + bounds.high, [2.5615528, 1.618034, 1.3062258, 1.1871843, 1.1708204])


def test_the_largest_squares_leave_until_the_mean_of_the_others_is_within_m2pos_budget() -> None:
    """Those of the harmful tokens of batch Z are 0.0025 (twice), 0.09 (twice) and 1.44."""
    for budget, count in ((0.33, 0), (0.32, 1), (0.0464, 1), (0.04, 2), (0.03, 3), (0.0025, 3), (0.002, 5)):
        found = parse(f"m2po(budget={budget})").plan(batch_z()).touched["second_moment_mask"]
        assert found.sum() == count, budget
    for budget, square in ((0.04, 0.0025), (0.038, 0.0025), (0.06, 0.09), (0.3, 0.09), (0.002, 0.0), (0.326, math.inf)):
        bounds = parse(f"second_moment_clip(budget={budget})").plan(batch_z()).bounds
        tau = math.sqrt(square)
        assert bounds.low.unique().tolist() == pytest.approx([1 - math.exp(-tau)], rel=2e-3)
        assert bounds.high.unique().tolist() == pytest.approx([math.exp(tau) - 1], rel=2e-3)


def test_an_entropy_lies_between_the_surest_and_the_least_sure() -> None:
    entropy = tokens([0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 1.5, 0.3, 0.05])
    batch = small_batch(torch.full((1, 10), 0.5).double(), [1.0], [0], entropy=entropy)
    expected = [-1, -0.823, -0.589, -0.411, -0.234, 0, 0.631, 1, -0.131, -0.589]
    assert PARTS["heterogeneous_clip"]().height(batch)[0].tolist() == pytest.approx(expected, abs=6e-4)
    height = torch.linspace(-1, 1, 9)
    for variant in ("paper", "authors"):
        widths = [part.widths(height) for part in parse(f"hapo(variant={variant})").parts if hasattr(part, "widths")]
        assert len(widths) == 2 and all(map(torch.equal, *widths)) and widths[0][0].amax() == pytest.approx(0.4)


def test_kpos_filter_has_the_published_gains_however_long_a_response_is() -> None:
    gains = PARTS["kalman_ratio"](q=1).gains(torch.arange(1, 6)).tolist()
    assert gains == pytest.approx([0.5, 0.6, 0.615385, 0.617647, 0.617978], abs=1e-6)
    gains = PARTS["kalman_ratio"]().gains(torch.arange(1, 8193))
    assert gains[[0, 99, 999]].tolist() == pytest.approx([1e-6, 1e-4, 7.6e-4], rel=0.01)
    assert gains[-1].item() == pytest.approx(9.995e-4, rel=1e-4)
    draw = torch.Generator().manual_seed(0)
    for q, width in ((1.0, 5), (1.0, 9), (1e-3, 1000)):
        change = tokens([0.4, -0.2, 0.1, 0, 0.3]) if width == 5 else torch.randn(1, width, generator=draw).double()
        old = torch.full((1, width), 0.3, dtype=torch.float64)
        batch = small_batch(old, [1.0], [0], logp=old.log() + change, advantage=old)
        state, variance, states = 0.0, 0.0, []
        for z in change[0].tolist():
            gain = (variance + q) / (variance + q + 1)
            state, variance = state + gain * (z - state), (1 - gain) * (variance + q)
            states.append(state)
        found = PARTS["kalman_ratio"](q=q).ratio(batch, batch.logp).log()[0]
        torch.testing.assert_close(found, tokens(states)[0], rtol=1e-9, atol=1e-12)
        if width == 5:
            assert found.tolist() == pytest.approx([0.2, -0.04, 0.046154, 0.017647, 0.192135], abs=1e-6)


def test_a_quantile_that_falls_on_a_value_masks_only_what_is_below() -> None:
    for q, numerator, denominator in (
        ("0.1", 1, 10),
        ("0.3", 3, 10),
        ("0.55", 11, 20),
        ("0.75", 3, 4),
        ("0.29", 29, 100),
    ):
        for size in range(2, 102):
            pool = [i / 128 for i in range(size)]
            masked = -(-numerator * (size - 1) // denominator)  # what lies below the position q (size - 1)
            probability = torch.full((2, size + 1), 0.001, dtype=torch.float64)
            probability[:, -1] = 0.5
            batch = small_batch(probability, [1.0, -1.0], [0, 0], entropy=tokens([*pool, 0.0], [*pool, 0.0]))
            plan = parse(f"stapo(q={q})").plan(parse(f"stapo(q={q})").prepare(batch))
            assert plan.touched["s2t"][0, :-1].tolist() == [i < masked for i in range(size)], (q, size)


def test_stare_takes_a_tenth_of_the_tokens_of_a_sign_rounded_up() -> None:
    for candidates, taken in ((1, 1), (10, 1), (11, 2), (20, 2), (21, 3)):
        probability = torch.linspace(0.1, 0.9, candidates, dtype=torch.float64).expand(2, -1)
        batch = small_batch(probability, [1, -1], [0, 0])
        found = parse("justrl+stare(target_entropy=none,amplify=1.5,attenuate=0.5)").prepare(batch).advantage
        expected = [
            [sign * (weight if t < taken else 1.0) for t in range(candidates)] for sign, weight in ((1, 1.5), (-1, 0.5))
        ]
        torch.testing.assert_close(found * (math.sqrt(2) + 1e-6), tokens(*expected))


# ---- random keys -----------------------------------------------------------------------------------------------------


def test_the_random_key_of_a_token_is_that_of_seed_group_row_and_position_alone() -> None:
    group = torch.tensor([7, 7, 7, 3, 3])
    key = lots(group, 9, seed=5)
    assert torch.equal(lots(group, 12, seed=5)[:, :9], key)
    assert torch.equal(lots(group[[3, 0, 4, 1, 2]], 9, seed=5), key[[3, 0, 4, 1, 2]])
    assert torch.equal(lots(torch.tensor([3, 9, 3]), 9, seed=5)[[0, 2]], key[3:])
    assert len(torch.cat([key, lots(group, 9, seed=6)]).unique()) == 90
    assert lots(torch.tensor([3]), 1, seed=5).item() == key[3, 0]


def test_random_keys_are_uniform_and_independent() -> None:
    values = uniform_of(lots(torch.arange(200) // 8, 50, seed=0))
    assert torch.histc(values, 10, 0, 1) / values.numel() == pytest.approx([0.1] * 10, abs=0.01)
    centred = values - 0.5
    for lag in (centred[:, 1:] * centred[:, :-1], centred[1:] * centred[:-1]):
        assert abs(lag.mean()) < 0.004
    ends = torch.tensor([[-(2**63), 0, 2**63 - 1]])
    assert uniform_of(ends).tolist() == [[0.0, 0.5, 1 - 2**-53]]


def test_what_is_drawn_has_its_share_and_does_not_depend_on_the_last_bits() -> None:
    group = torch.arange(64) // 8
    batch = small_batch(
        torch.full((64, 200), 0.5).double(), [0.0, 1.0] * 32, group.tolist(), lot=lots(group, 200, seed=3)
    )
    for expression, mean, largest in (("share=0.4", 0.4, 200), ("share=0.4,first=25,limit=40", 0.2, 40)):
        objective = parse(f"s_grpo({expression})")
        drawn = ~objective.plan(objective.prepare(batch)).touched["random_tokens"]
        assert drawn.double().mean().item() == pytest.approx(mean, abs=0.01) and drawn.sum(1).max() <= largest
    choice, batch = "clip_cov(fraction=0.2,low=0.1,high=1)", batch_z()
    again = batch.with_fields(logp_old=batch.logp_old * (1 + 1e-12), logp=batch.logp * (1 - 1e-12))
    found, expected = (parse(choice).plan(it).touched["clip_cov"] for it in (again, batch))
    assert torch.equal(found, expected) and found.nonzero().tolist() == [[0, 0], [1, 1]]


# ---- from step to step -----------------------------------------------------------------------------------------------


def steps(expression: str, entropies: list[float]) -> list[Prepared]:
    """What is prepared in each step; the surprisals of the rollouts are their entropies."""
    objective, state, found = parse(expression), {}, []
    for entropy in entropies:
        values = torch.full((2, 2), entropy, dtype=torch.float64)
        batch = small_batch(tokens([0.5, 0.5]).expand(2, 2), [1.0, 0.0], [0, 0], entropy_old=values, logp_old=-values)
        found.append(objective.prepare(batch.with_fields(logp_teacher=torch.ones_like(values)), state))
        state = found[-1].state
    return found


def test_magics_controller_is_that_of_its_authors_and_the_papers_switch_looks_at_the_step_itself() -> None:
    """`EntController(0, 3e-4, 0, 1e-4, 0.2, True)`, SkyworkAI/Skywork-OR1@64e96af core_algos.py:56-74, times 1e4."""
    entropies = [0.1, 0.1, 0.3, 0.1, 0.1, 0.1, 0.1, 0.2, 0.3, 0.3, 0.3, 0.3]
    weights, realized = [0, 1, 2, 1, 2, 3, 3, 3, 2, 1, 0, 0], [0, 1, 2, 0, 2, 3, 3, 3, 0, 0, 0, 0]
    now = [weight * (entropy < 0.2) for weight, entropy in zip(weights, entropies, strict=True)]
    for expression, switched in (("magic(variant=authors,most=0.0003)", realized), ("magic(most=0.0003)", now)):
        states = [step.state["adaptive_entropy"] for step in steps(expression, entropies)]
        assert [state["weight"] * 1e4 for state in states] == pytest.approx(weights, abs=1e-9)
        assert [state["coefficient"] * 1e4 for state in states] == pytest.approx(switched, abs=1e-9)
    nothing = small_batch(tokens([0.5, 0.5]).expand(2, 2), [1.0, 1.0], [0, 0])
    before = {"adaptive_entropy": {"entropy": 0.1, "weight": 0.001, "coefficient": 0.001}}
    after = parse("magic").prepare(nothing, before).state["adaptive_entropy"]
    assert after["entropy"] == 0.1 and after["weight"] == pytest.approx(0.0011)


def test_good_tokens_count_less_while_the_entropy_is_low_and_more_again_after() -> None:
    def weights(entropies: list[float]) -> list[float]:
        found = (step.advantage for step in steps("par(target_entropy=0.25)", entropies))
        return [(advantage[0, 0] / -advantage[1, 0]).item() for advantage in found]

    assert weights([0.125, 0.125, 0.25, 0.5, 0.5, 0.5]) == pytest.approx([0.95, 0.9, 0.9, 0.95, 1.0, 1.0])
    assert weights([0.1] * 25)[-1] == pytest.approx(0.0, abs=1e-9)


def test_the_teacher_has_less_to_say_from_step_to_step_and_nothing_after_fifty() -> None:
    found = [step.advantage[0, 0].item() * math.sqrt(2) for step in steps("rlsd", [0.5] * 52)]
    assert found[:2] == pytest.approx([1.1, 1 + 0.1 * 49 / 50], abs=1e-5)
    assert found[25] == pytest.approx(1.05, abs=1e-5) and found[50:] == pytest.approx([1.0, 1.0], abs=1e-5)


def test_a_target_stays_while_the_rollouts_are_passed_over_again() -> None:
    for expression in ("tpo", "stapo"):
        (once,) = parse(expression).token_gradients(rollouts_z())
        several = parse(f"{expression}+epochs(count=3)").token_gradients(rollouts_z())
        assert len(several) == 3 and all(torch.equal(gradient, once) for gradient in several)
