"""GRPO's vectors."""

import math

import pytest
import torch

from objectives import Objective, parse
from tests.objectives.comparison import evaluate
from tests.objectives.vectors import small_batch, tokens


@pytest.mark.parametrize("low", [-1.0, 0.0])
@pytest.mark.parametrize(
    ("right", "advantage"),
    [(1, 2.4749), (2, 1.6202), (3, 1.2076), (4, 0.9354), (5, 0.7246), (6, 0.5401), (7, 0.3536)],
)
def test_advantages_are_those_of_the_printed_case_tables(right: int, advantage: float, low: float) -> None:
    rewards = [1.0] * right + [low] * (8 - right)
    prepared = parse("grpo-kl").prepare(small_batch(torch.full((8, 1), 0.5), rewards, [0] * 8))
    assert prepared.advantage[0, 0].item() == pytest.approx(advantage, abs=1e-4)


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
