"""Law 3: every method's gradients are those of its equation, for the paper and for the authors' code.

`python tests/objectives/test_methods.py` (or pytest -rP) prints the table of the largest errors.
"""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from batches import random_case, token_batch
from comparison import TOLERANCE, case_and_reference, evaluate, largest_error, relative_error
from references import COMPOSITIONS, RECIPES, STARE, Method, quantile, reference
from torch import Tensor

from objectives import Objective, TokenBatch, names, parse

DTYPES = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
BUILT_IN = [name for name in names() if name.kind == "recipe"]


@DTYPES
@pytest.mark.parametrize("expression", RECIPES)
def test_recipes_have_the_gradients_of_their_equations(expression: str, dtype: torch.dtype) -> None:
    worst = largest_error(expression, RECIPES[expression], range(200), dtype)
    print(f"{expression:40s} {dtype!s:14s} largest relative error {worst:.1e}")
    assert worst < TOLERANCE[dtype]


@DTYPES
@pytest.mark.parametrize("expression", COMPOSITIONS)
def test_compositions_have_the_gradients_of_their_equations(expression: str, dtype: torch.dtype) -> None:
    worst = largest_error(expression, COMPOSITIONS[expression], range(40), dtype)
    print(f"{expression:40s} {dtype!s:14s} largest relative error {worst:.1e}")
    assert worst < TOLERANCE[dtype]


@pytest.mark.parametrize("expression", [*RECIPES, *COMPOSITIONS])
def test_losses_and_entropy_gradients_are_those_of_the_equations(expression: str) -> None:
    objective, method = parse(expression), (RECIPES | COMPOSITIONS)[expression]
    for seed in range(12):
        case, expected = case_and_reference(method, seed)
        for update, wanted in zip(evaluate(objective, token_batch(case)), expected, strict=True):
            assert abs(update.loss - wanted.loss) <= 1e-10 * wanted.loss_scale
            found = update.entropy_gradient.numpy()
            assert relative_error(found, wanted.entropy_gradient, abs(wanted.entropy_gradient)) < 1e-10


def test_every_variant_of_every_recipe_has_a_reference() -> None:
    variants = {parse(f"{name.name}(variant={variant})") for name in BUILT_IN for variant in name.variants}
    assert variants <= {parse(expression) for expression in RECIPES}


@pytest.mark.parametrize("expression", [*RECIPES, *COMPOSITIONS])
def test_references_differentiate_their_own_losses(expression: str) -> None:
    method = (RECIPES | COMPOSITIONS)[expression]
    for seed in range(2):
        case = random_case(seed, extreme=False, moved=True)
        draw, step = np.random.default_rng(seed), 1e-6
        case = replace(case, logp=case.logp + 1e-3 * draw.standard_normal(case.logp.shape))
        direction = draw.standard_normal(case.mask.shape)
        above = reference(method, replace(case, logp=case.logp + step * direction))
        below = reference(method, replace(case, logp=case.logp - step * direction))
        for at, up, down in zip(reference(method, case), above, below, strict=True):
            slope = (down.loss - up.loss) / (2 * step)
            assert slope == pytest.approx((at.gradient * direction).sum(), abs=1e-6 * at.scale.sum() + 1e-9)


def test_random_batches_reach_the_edges() -> None:
    reached: Counter[str] = Counter()
    for seed in range(200):
        case = random_case(seed)
        lengths, tokens = case.mask.sum(1), case.mask
        uniform = [len(set(case.correct[case.group == name])) == 1 for name in set(case.group.tolist())]
        difference = np.where(tokens, case.current, 0.0) - np.where(tokens, case.logp_old, 0.0)
        rare = case.current_entropy[tokens & (case.current < math.log(0.002)) & (case.reward > 0)[:, None]]
        entropy = case.entropy_old[tokens].mean()
        reached["empty response"] += (lengths == 0).any()
        reached["uniform group"] += any(uniform)
        reached["nothing selected"] += all(uniform)
        reached["clipped"] += (difference > 0.3).any() and (difference < -0.3).any()
        reached["capped"] += (difference > 3).any()
        reached["saturated ratio"] += (abs(difference) > 20).any()
        reached["probability 1"] += (case.current[tokens] == 0).any()
        reached["probability < 1e-20"] += (case.current[tokens] < -45).any()
        reached["pool of one"] += len(rare) == 1
        reached["pool with ties"] += len(set(rare.tolist())) < len(rare)
        reached["gate on"] += entropy < 0.3
        reached["gate off"] += entropy >= 0.3
        reached["on-policy"] += case.logp is None
    print(dict(reached))
    assert min(reached.values()) >= 5


# ---- the vectors of the specs ----------------------------------------------------------------------------------------


def tokens(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def small_batch(probability: Tensor, reward: list[float], group: list[int], **more: object) -> TokenBatch:
    """A batch in which every token of `probability` [N, T] that is not 0 is there; on-policy unless told otherwise."""
    logp = probability.clamp(min=1e-300).log()
    fields = {"logp_old": logp, "logp": logp, "entropy_old": torch.ones_like(logp), "entropy": torch.ones_like(logp)}
    values = tokens(reward)[0]
    return TokenBatch(
        mask=probability > 0,
        group=torch.tensor(group),
        **{"reward": values, "correct": (values > 0).double(), "max_length": 100, **fields, **more},
    )


@pytest.mark.parametrize("low", [-1.0, 0.0])
@pytest.mark.parametrize(
    ("right", "advantage"),
    [(1, 2.4749), (2, 1.6202), (3, 1.2076), (4, 0.9354), (5, 0.7246), (6, 0.5401), (7, 0.3536)],
)
def test_advantages_are_those_of_the_printed_case_tables(right: int, advantage: float, low: float) -> None:
    rewards = [1.0] * right + [low] * (8 - right)
    prepared = parse("grpo-kl").prepare(small_batch(torch.full((8, 1), 0.5), rewards, [0] * 8))
    assert prepared.advantage[0, 0].item() == pytest.approx(advantage, abs=1e-4)


def test_the_first_update_is_the_advantage_over_the_token_count() -> None:
    batch = small_batch(tokens([0.5, 0.5, 0.5], [0.5, 0.5, 0]), [1, -1], [0, 0])
    advantage = 1 / (math.sqrt(2) + 1e-6)
    expected = advantage / 5 * tokens([1, 1, 1], [-1, -1, 0])
    torch.testing.assert_close(parse("justrl").token_gradients(batch)[0], expected, rtol=1e-12, atol=0)


def test_the_legacy_token_mean_weighs_micro_batches_by_their_rows() -> None:
    batch = small_batch(tokens([0.5, 0.5, 0.5], [0.5, 0, 0]), [1, -1], [0, 0], micro_batch=torch.tensor([0, 1]))
    advantage = 1 / (math.sqrt(2) + 1e-6)
    (found,) = parse("justrl(variant=authors)").token_gradients(batch)
    expected = advantage * tokens([1 / 6, 1 / 6, 1 / 6], [-1 / 2, 0, 0])
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    ("expression", "advantage", "last", "bounded"),
    [
        ("justrl", 1, 1.28, True),
        ("justrl", -1, 0.8, False),
        ("justrl(variant=authors)", -1, 10.0, True),
        ("grpo+dual_clip-kl", -1, 3.0, True),
        ("grpo-kl", 1, 1.2, True),
        ("ar-kl", 1, 1.24, True),
    ],
)
def test_the_gradient_ends_at_the_clip_bound(expression: str, advantage: int, last: float, bounded: bool) -> None:
    ratios = [last * (1 - 1e-9), last * (1 + 1e-9)] if bounded else [last * (1 + 1e-9), last * (1 - 1e-9)]
    batch = small_batch(tokens([0.01, 0.01], [0.01, 0.01]), [advantage, -advantage], [0, 0])
    batch = batch.with_fields(logp=batch.logp_old + tokens(ratios, ratios).log())
    (found,) = parse(expression).token_gradients(batch)
    assert found[0, 0] * advantage > 0
    assert found[0, 1] == 0


@pytest.mark.parametrize("advantage", [1, -1])
def test_a_ratio_on_the_bound_has_its_gradient(advantage: int) -> None:
    batch = small_batch(tokens([0.5], [0.5]), [advantage, -advantage], [0, 0])
    assert (parse("grpo(low=0)-kl").token_gradients(batch)[0] != 0).all()


def test_k3_is_zero_at_the_reference_and_pulls_by_the_ratio() -> None:
    batch = small_batch(tokens([0.5, 0.2], [0.5, 0.2]), [1, 1], [0, 0])
    at_reference = evaluate(parse("grpo"), batch.with_fields(logp_ref=batch.logp))[0]
    assert at_reference.loss == 0
    assert (at_reference.gradient == 0).all()
    away = batch.with_fields(logp_ref=tokens([0.25, 0.4], [0.5, 0.2]).log())
    (found,) = parse("grpo").token_gradients(away)
    torch.testing.assert_close(found, 0.04 / 4 * tokens([-0.5, 1.0], [0, 0]), rtol=1e-12, atol=1e-18)


def test_soft_overlong_punishes_the_last_fifth_of_the_limit() -> None:
    lengths = torch.tensor([1, 16384, 18432, 20480, 20481])
    batch = TokenBatch(mask=torch.arange(20481) < lengths[:, None], reward=torch.ones(5), max_length=20480)
    assert parse("soft_overlong").select(batch).reward.tolist() == [1, 1, 0.5, 0, 0]


def test_dynamic_sampling_judges_the_raw_correctness() -> None:
    batch = small_batch(torch.ones(4, 10, dtype=torch.float64), [-1, -1, 1, -1], [7, 7, 2, 2])
    batch = batch.with_fields(mask=torch.arange(10) < torch.tensor([[2], [10], [2], [2]]), max_length=10)
    prepared = parse("dapo").prepare(batch)
    assert prepared.reward.tolist() == [-1, -2, 1, -1]
    assert prepared.selected.tolist() == [False, False, True, True]
    assert prepared.mask.sum() == 4


def test_advantage_reweighting_weighs_as_printed() -> None:
    probability = tokens([0.05, 0.3, 0.5, 0.9, 1.0], [0.05, 0.3, 0.5, 0.9, 1.0])
    for alpha, expected in ((0.3, [0.715, 0.79, 0.85, 0.97, 1]), (0.1, [0.905, 0.93, 0.95, 0.99, 1])):
        prepared = parse(f"justrl+ar(alpha={alpha})").prepare(small_batch(probability, [1, -1], [0, 0]))
        advantage = 1 / (math.sqrt(2) + 1e-6)
        for row, sign in ((0, 1), (1, -1)):
            assert (prepared.advantage[row] * sign / advantage).tolist() == pytest.approx(expected)


def test_lopti_splits_as_printed() -> None:
    batch = small_batch(tokens([0.1, 0.6, 0.5], [0.9, 0.49, 0]), [1, -1], [0, 0])
    unit = (math.sqrt(2) + 1e-6) * 5
    first, second = (update * unit for update in parse("justrl+lopti").token_gradients(batch))
    torch.testing.assert_close(first, tokens([1, 0, 0], [0, -1, 0]), rtol=1e-12, atol=0)
    torch.testing.assert_close(second, tokens([0, 1, 1], [-1, 0, 0]), rtol=1e-12, atol=0)


def test_lopti_puts_the_boundary_into_the_high_group() -> None:
    batch = small_batch(tokens([1.0, 0.25], [1.0, 0.25]), [1, -1], [0, 0])
    first, second = parse("justrl+lopti(eta=1)").token_gradients(batch)
    assert (first != 0).tolist() == [[False, True]] * 2
    assert (second != 0).tolist() == [[True, False]] * 2


@pytest.mark.parametrize(("candidates", "taken"), [(1, 1), (10, 1), (11, 2), (20, 2), (21, 3)])
@pytest.mark.parametrize("sign", [1, -1])
def test_stare_takes_a_tenth_of_the_tokens_of_a_sign_rounded_up(candidates: int, taken: int, sign: int) -> None:
    probability = torch.linspace(0.1, 0.9, candidates, dtype=torch.float64).expand(2, -1)
    batch = small_batch(probability, [sign, -sign], [0, 0])
    prepared = parse("justrl+stare(target_entropy=none,amplify=1.5,attenuate=0.5)").prepare(batch)
    weights = prepared.advantage[0] * sign * (math.sqrt(2) + 1e-6)
    expected = [1.5 if sign > 0 else 0.5] * taken + [1.0] * (candidates - taken)
    assert weights.tolist() == pytest.approx(expected)


@pytest.mark.parametrize(("entropy", "weight"), [(0.2999, 1.1), (0.3, 1.0), (0.5, 1.0)])
def test_stares_gate_is_strict(entropy: float, weight: float) -> None:
    batch = small_batch(tokens([0.5], [0.5]), [1, -1], [0, 0], entropy_old=tokens([entropy], [entropy]))
    advantage = parse("stare").prepare(batch).advantage[0, 0].item()
    assert advantage * (math.sqrt(2) + 1e-6) == pytest.approx(weight)
    assert STARE.stare.target == 0.3


def spurious(pool: list[float], expression: str = "stapo", reward: float = 1.0) -> tuple[list[bool], Tensor]:
    """Which of a pool of rare tokens with these entropies are silenced, and the gradient of the whole batch."""
    probability = torch.full((2, len(pool) + 1), 0.001, dtype=torch.float64)
    probability[:, -1] = 0.5
    entropy = tokens([*pool, 0.0], [*pool, 0.0])
    batch = small_batch(probability, [reward, -reward], [0, 0], entropy=entropy, entropy_old=entropy)
    (gradient,) = parse(expression).token_gradients(batch)
    return (gradient[0, :-1] == 0).tolist(), gradient


@pytest.mark.parametrize(("size", "silenced"), [(1, 0), (2, 1), (4, 3), (5, 3)])
def test_stapo_silences_the_lower_three_quarters_of_its_pool(size: int, silenced: int) -> None:
    found, gradient = spurious([0.1 * (i + 1) for i in range(size)])
    assert found == [True] * silenced + [False] * (size - silenced)
    assert (gradient[1] != 0).all()
    counted = 2 * (size + 1) - silenced
    assert gradient[0, -1].item() == pytest.approx(1 / (math.sqrt(2) + 1e-6) / counted, rel=1e-10)


def test_stapo_keeps_ties_at_the_threshold() -> None:
    assert spurious([0.5, 0.5, 0.5, 0.5])[0] == [False] * 4
    assert spurious([0.1, 0.5, 0.5, 0.5])[0] == [True, False, False, False]


def test_stapo_at_q_1_silences_all_but_the_highest_entropy() -> None:
    assert spurious([0.1, 0.4, 0.2, 0.4], "stapo(q=1)")[0] == [True, False, True, False]
    assert spurious([0.1, 0.4, 0.2, 0.4], "stapo(q=0)")[0] == [False] * 4


def test_stapo_without_a_pool_silences_nothing() -> None:
    frequent = small_batch(torch.full((2, 3), 0.5, dtype=torch.float64), [1, -1], [0, 0])
    assert (parse("stapo").token_gradients(frequent)[0] != 0).all()
    equal = small_batch(torch.full((2, 3), 1e-4, dtype=torch.float64), [1, 1], [0, 0])
    plan = parse("stapo").plan(parse("stapo").prepare(equal))
    assert plan.policy_coefficient.tolist() == [[pytest.approx(1 / 6)] * 3] * 2
    assert (parse("stapo").token_gradients(equal)[0] == 0).all()


def test_entropy20_divides_by_what_it_keeps() -> None:
    entropy = tokens([5, 4, 3, 2, 1], [0, 0, 0, 0, 0])
    batch = small_batch(torch.full((2, 5), 0.5, dtype=torch.float64), [1, -1], [0, 0])
    batch = batch.with_fields(entropy=entropy)
    advantage = 1 / (math.sqrt(2) + 1e-6)
    for expression, denominator in (("entropy20", 2), ("entropy20(variant=v1)", 10)):
        expected = advantage / denominator * tokens([1, 1, 0, 0, 0], [0, 0, 0, 0, 0])
        torch.testing.assert_close(parse(expression).token_gradients(batch)[0], expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("q", ["0.1", "0.3", "0.55", "0.75", "0.8", "0.29"])
def test_a_quantile_that_falls_on_a_value_silences_only_what_is_below(q: str) -> None:
    for size in range(2, 102):
        entropies = [i / 128 for i in range(size)]
        boundary = quantile(entropies, q)
        assert spurious(entropies, f"stapo(q={q})")[0] == [value < boundary for value in entropies]


def test_gradients_by_the_logits_have_the_norm_of_the_decomposition_and_its_bounds() -> None:
    draw, vocabulary = torch.Generator().manual_seed(0), 11
    logits = (3 * torch.randn(2, 30, vocabulary, dtype=torch.float64, generator=draw)).requires_grad_()
    distribution = logits.log_softmax(-1)
    sampled = torch.randint(vocabulary, (2, 30), generator=draw)
    logp = distribution.gather(-1, sampled[..., None])[..., 0]
    probability = distribution.detach().exp()
    entropy = -(probability * distribution.detach()).sum(-1)
    objective: Objective = parse("justrl")
    batch = small_batch(logp.detach().exp(), [1, -1], [0, 0])
    batch = batch.with_fields(logp_old=logp.detach() + 0.3 * torch.randn(2, 30, dtype=torch.float64, generator=draw))
    batch = batch.with_fields(logp=logp.detach())
    plan = objective.plan(objective.prepare(batch))
    (by_logits,) = torch.autograd.grad(objective.loss(plan, slice(None), logp), logits)
    weight = objective.token_gradients(batch)[0].square()
    norm, chosen = by_logits.square().sum(-1), logp.detach().exp()
    torch.testing.assert_close(norm, weight * (1 - 2 * chosen + probability.square().sum(-1)), rtol=1e-9, atol=0)
    constant = (vocabulary - 1) / (vocabulary * math.log(vocabulary) ** 2)
    assert (weight * (1 - 2 * chosen + (-entropy).exp()) <= norm * (1 + 1e-9)).all()
    assert (norm <= weight * (2 - 2 * chosen - constant * entropy.square()) * (1 + 1e-9)).all()


def main() -> None:
    """Prints the table of the largest errors."""
    methods: dict[str, Method] = RECIPES | COMPOSITIONS
    print(f"{'largest relative error on 200 random batches':66s} float64  float32")
    for expression, method in methods.items():
        worst = [largest_error(expression, method, range(200), dtype) for dtype in (torch.float64, torch.float32)]
        print(f"{expression:66s} {worst[0]:.1e}  {worst[1]:.1e}")


if __name__ == "__main__":
    main()
