"""What a method does to tokens: `touched` against calculations by hand."""

import math

import pytest
import torch
from torch import Tensor

from objectives import Ratio, TokenBatch, parse
from tests.objectives.batches import random_case, token_batch
from tests.objectives.comparison import at_current
from tests.objectives.laws import without_penalties
from tests.objectives.vectors import tokens
from tests.objectives.zoo_sample import VARIANTS


def batch_of(ratio: Tensor, reward: list[float], **more: object) -> TokenBatch:
    """A group of responses with tokens where `ratio` is not 0, probability 0.5 and entropy 1 unless told otherwise."""
    n, t = ratio.shape
    logp = torch.full((n, t), math.log(0.5), dtype=torch.float64)
    values = tokens(reward)[0]
    fields = {
        "mask": ratio > 0,
        "group": torch.zeros(n, dtype=torch.long),
        "reward": values,
        "correct": (values > 0).double(),
        "truncated": torch.zeros(n).bool(),
        "max_length": 1000,
        "micro_batch": torch.zeros(n, dtype=torch.long),
        "logp_old": logp - ratio.clamp(min=1e-9).log(),
        "entropy_old": torch.ones_like(logp),
        "logp": logp,
        "entropy": torch.ones_like(logp),
        "logp_ref": logp,
    }
    return TokenBatch(**(fields | more))


def touched(expression: str, batch: TokenBatch) -> dict[str, list[list[int]]]:
    """Part -> [N][T] of 0 and 1."""
    objective = parse(expression)
    plan = objective.plan(objective.passes(objective.prepare(batch))[0])
    found = objective.touched(plan, slice(None), plan.batch.logp)
    return {name: mask.int().tolist() for name, mask in found.items()}


RATIOS = tokens([1.0, 1.25, 1.5, 0.5], [1.0, 1.25, 11.0, 0.5], [4.0, 0.79, 0.81, 0.0])
REWARD = [1, -1, -1]


def test_clip_touches_the_tokens_whose_gradient_it_cuts_off() -> None:
    batch = batch_of(RATIOS, REWARD)
    assert touched("grpo", batch)["clip"] == [[0, 1, 1, 0], [0, 0, 0, 1], [0, 1, 0, 0]]
    assert touched("justrl", batch)["clip"] == [[0, 0, 1, 0], [0, 0, 0, 1], [0, 1, 0, 0]]
    assert touched("justrl(variant=authors)", batch)["clip"] == [[0, 0, 1, 0], [0, 0, 1, 1], [0, 1, 0, 0]]
    assert touched("justrl+dual_clip", batch)["clip"] == [[0, 0, 1, 0], [0, 0, 1, 1], [1, 1, 0, 0]]


def test_clip_higher_touches_the_tokens_between_the_two_bounds() -> None:
    batch = batch_of(RATIOS, REWARD)
    assert touched("justrl", batch)["clip_higher"] == [[0, 1, 0, 0], [0] * 4, [0] * 4]
    assert touched("justrl(high=0.6)", batch)["clip_higher"] == [[0, 1, 1, 0], [0] * 4, [0] * 4]


def test_a_lower_upper_bound_touches_the_tokens_between_the_two_bounds_as_well() -> None:
    batch = batch_of(tokens([1.0, 1.15, 1.5], [1.0, 1.15, 1.5]), [1, -1])
    assert touched("justrl+clip_higher(high=0.1)", batch)["clip_higher"] == [[0, 1, 0], [0, 0, 0]]


def test_dual_clip_touches_the_tokens_above_its_cap() -> None:
    assert touched("grpo+dual_clip", batch_of(RATIOS, REWARD))["dual_clip"] == [[0] * 4, [0, 0, 1, 0], [1, 0, 0, 0]]


def test_s2t_touches_the_tokens_it_silences() -> None:
    rare, common = math.log(0.001), math.log(0.5)
    logp = tokens([rare, rare, rare, rare, common], [rare] * 5)
    entropy = tokens([0.4, 0.1, 0.3, 0.2, 0.0], [0.0] * 5)
    batch = batch_of(torch.ones(2, 5), [1, -1], logp=logp, logp_old=logp, entropy=entropy)
    assert touched("stapo", batch)["s2t"] == [[0, 1, 1, 1, 0], [0] * 5]
    assert touched("stapo(q=0.5)", batch)["s2t"] == [[0, 1, 0, 1, 0], [0] * 5]
    assert touched("stapo(tau_p=0.0001)", batch)["s2t"] == [[0] * 5, [0] * 5]


def test_top_entropy_touches_the_tokens_it_silences() -> None:
    entropy = tokens([5, 4, 3, 2, 1], [0, 1, 2, 9, 9])
    batch = batch_of(tokens([1, 1, 1, 1, 1], [1, 1, 1, 0, 0]), [1, -1], entropy=entropy)
    assert touched("dapo+top_entropy(fraction=0.5)", batch)["top_entropy"] == [[0, 0, 0, 0, 1], [1, 1, 0, 0, 0]]
    assert touched("entropy20", batch)["top_entropy"] == [[0, 0, 1, 1, 1], [1, 1, 1, 0, 0]]


def test_weights_touch_the_tokens_whose_weight_is_not_one() -> None:
    logp = tokens([0.0, math.log(0.5), -9.0], [0.0, -5.0, -9.0])
    batch = batch_of(tokens([1, 1, 1], [1, 1, 0]), [1, -1], logp_old=logp, entropy_old=torch.full((2, 3), 0.1).double())
    assert touched("ar", batch)["advantage_reweighting"] == [[0, 1, 1], [0, 1, 0]]
    assert touched("ar(alpha=0)", batch)["advantage_reweighting"] == [[0, 0, 0], [0, 0, 0]]
    assert touched("stare", batch)["surprisal_reweighting"] == [[0, 0, 1], [0, 0, 0]]
    assert touched("stare(variant=c2)", batch)["surprisal_reweighting"] == [[0, 0, 1], [0, 1, 0]]
    assert touched("stare(target_entropy=0.05)", batch)["surprisal_reweighting"] == [[0, 0, 0], [0, 0, 0]]


def test_lopti_touches_the_tokens_of_the_low_group() -> None:
    batch = batch_of(torch.ones(2, 3), [1, -1], logp_old=tokens([0.1, 0.6, 0.5], [0.9, 0.49, 0.2]).log())
    assert touched("lopti", batch)["lopti"] == [[1, 0, 0], [0, 1, 1]]
    assert touched("lopti(order=high_first)", batch)["lopti"] == [[1, 0, 0], [0, 1, 1]]


def test_stages_one_and_two_touch_whole_responses() -> None:
    ratio = tokens([1, 1, 1, 1, 1], [1, 1, 1, 1, 0], [1, 1, 0, 0, 0], [1, 1, 0, 0, 0])
    group = torch.tensor([0, 0, 1, 1])
    batch = batch_of(
        ratio, [1, -1, 1, 1], group=group, max_length=5, truncated=torch.tensor([True, False, False, True])
    )
    found = touched("dapo+overlong_filter", batch)
    assert found["soft_overlong"] == [[1] * 5, [0] * 5, [0] * 5, [0] * 5]
    assert found["dynamic_sampling"] == [[0] * 5, [0] * 5, [1, 1, 0, 0, 0], [1, 1, 0, 0, 0]]
    assert found["overlong_filter"] == [[1] * 5, [0] * 5, [0] * 5, [1, 1, 0, 0, 0]]


PLAIN = [
    *(expression for expression in VARIANTS if {"clip", "unclipped"} & {part.name for part in parse(expression).parts}),
    "grpo+dual_clip",
]


@pytest.mark.parametrize("expression", PLAIN)
def test_tokens_that_nothing_touches_have_the_plain_gradient(expression: str) -> None:
    """Where neither bounds, masks nor weights act, it is the ratio's times advantage over the denominator."""
    objective, checked = without_penalties(expression), 0
    for seed in range(8):
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
    assert checked > 0 or expression.startswith(
        ("advantage_reweighting", "arm", "opd", "opsd", "perplexity_shaping", "position_shaping")
    )  # which touch every token
