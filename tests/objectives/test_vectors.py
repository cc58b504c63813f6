"""What random batches do not reach: bounds and quantiles met exactly, random keys, and controllers over many steps."""

import math

import pytest
import torch

from objectives import Prepared, TokenBatch, parse, random_keys, uniform_of
from tests.objectives.batches import random_case, token_batch
from tests.objectives.vectors import (
    batch_r,
    batch_z,
    rollouts_z,
    small_batch,
    tokens,
)

# ---- the clip --------------------------------------------------------------------------------------------------------


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


def test_a_million_tokens_do_not_drown_small_advantages() -> None:
    for dtype in (torch.float32, torch.float64):
        reward = torch.ones(1000, dtype=dtype)
        reward[:20] = 0.0
        batch = TokenBatch(mask=torch.ones(1000, 1000).bool(), group=torch.arange(1000) // 4, reward=reward)
        found = parse("reinforce_pp-kl_reward").advantages(batch)
        assert found[-1].item() == pytest.approx(0.02 / (0.02 * 0.98) ** 0.5, rel=1e-3)


def test_a_group_of_long_responses_does_not_drown_small_differences_of_reward() -> None:
    reward = torch.tensor([0.99] + [1.0] * 15)
    batch = TokenBatch(mask=torch.ones(16, 4096, dtype=torch.bool), group=torch.zeros(16).long(), reward=reward)
    advantage = parse("token_group_norm-kl").prepare(batch).advantage[:, 0]
    assert advantage.tolist() == pytest.approx([-(15**0.5)] + [15**-0.5] * 15, rel=1e-3)


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


def test_the_control_of_lopti_trains_all_in_the_first_pass() -> None:
    batch = small_batch(tokens([1.0, 0.4], [0.999, 0.1]), [1.0, 0.0], [0, 0])
    objective = parse("lopti(eta=1)-kl")
    first, second = (update.policy_mask for update in objective.passes(objective.prepare(batch)))
    assert first is not None and second is not None and first.all() and not second.any()


def test_the_random_key_of_a_token_is_that_of_seed_group_row_and_position_alone() -> None:
    group = torch.tensor([7, 7, 7, 3, 3])
    key = random_keys(group, 9, seed=5)
    assert torch.equal(random_keys(group, 12, seed=5)[:, :9], key)
    assert torch.equal(random_keys(group[[3, 0, 4, 1, 2]], 9, seed=5), key[[3, 0, 4, 1, 2]])
    assert torch.equal(random_keys(torch.tensor([3, 9, 3]), 9, seed=5)[[0, 2]], key[3:])
    assert len(torch.cat([key, random_keys(group, 9, seed=6)]).unique()) == 90
    assert random_keys(torch.tensor([3]), 1, seed=5).item() == key[3, 0]


def test_random_keys_are_uniform_and_independent() -> None:
    values = uniform_of(random_keys(torch.arange(200) // 8, 50, seed=0))
    assert torch.histc(values, 10, 0, 1) / values.numel() == pytest.approx([0.1] * 10, abs=0.01)
    centred = values - 0.5
    for lag in (centred[:, 1:] * centred[:, :-1], centred[1:] * centred[:-1]):
        assert abs(lag.mean()) < 0.004
    ends = torch.tensor([[-(2**63), 0, 2**63 - 1]])
    assert uniform_of(ends).tolist() == [[0.0, 0.5, 1 - 2**-53]]


def test_what_is_drawn_has_its_share_and_does_not_depend_on_the_last_bits() -> None:
    group = torch.arange(64) // 8
    batch = small_batch(
        torch.full((64, 200), 0.5).double(), [0.0, 1.0] * 32, group.tolist(), random_key=random_keys(group, 200, seed=3)
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
