"""What an objective does to the table is its equation by hand, in numpy, which shares no code with the package."""

from dataclasses import fields

import numpy as np
import pytest
import torch

from objectives import parse
from rlzoo.lab.map.behaviour import measure, on_table, target_gradient, update_of
from rlzoo.lab.map.regimes import REGIMES, MapRollouts, RegimeSetting, make_setting, sample, slopes, token_stats
from tests.lab.map.settings import every_group, tiny_setting
from tests.objectives.batches import Case
from tests.objectives.references import REFERENCES, reference

BY_HAND = (
    "grpo",
    "dr_grpo",
    "justrl",
    "rloo",
    "opo",
    "cispo",
    "gspo",
    "maxrl",
    "positive_nll",
    "stapo",
    "dapo",
    "topr",
)


def case_of(rollouts: MapRollouts) -> Case:
    """A batch as plain arrays."""
    batch = rollouts.batch
    nothing_heard = {"heard": torch.zeros_like(batch.mask), "extent": batch.lengths}
    there = [item.name for item in fields(Case) if item.name not in nothing_heard]
    values = nothing_heard | {name: getattr(batch, name) for name in there}
    arrays = {name: value.numpy() if isinstance(value, torch.Tensor) else value for name, value in values.items()}
    return Case(
        **{name: value for name, value in arrays.items() if not (batch.on_policy and name in ("logp", "entropy"))}
    )


def by_hand(recipe: str, rollouts: MapRollouts, table: np.ndarray) -> np.ndarray:
    """The gradient on the logits, token by token."""
    gradient = np.zeros(table.shape).reshape(-1, table.shape[-1])
    logits = table.reshape(gradient.shape)
    probability = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    (update,) = reference(REFERENCES[recipe], case_of(rollouts))
    for row, position in np.argwhere(rollouts.batch.mask.numpy()):
        place, symbol = rollouts.place[row, position], rollouts.symbol[row, position]
        here = probability[place]
        chosen = np.eye(len(here))[symbol]
        entropy = -(here * np.log(here)).sum()
        gradient[place] += update.gradient[row, position] * (chosen - here)
        gradient[place] -= update.entropy_gradient[row, position] * here * (np.log(here) + entropy)
    return gradient.reshape(table.shape)


@pytest.mark.parametrize("recipe", BY_HAND)
@pytest.mark.parametrize("regime", ["on_policy", "stale"])
def test_the_gradient_of_a_batch_is_the_equation_by_hand(recipe: str, regime: str) -> None:
    setting = make_setting(REGIMES[regime])
    (rollouts,) = sample(setting, 1, seed=3)
    found = update_of(parse(recipe), rollouts, setting, step=0.01).gradient
    expected = by_hand(recipe, rollouts, setting.current.numpy())
    assert np.abs(expected).max() > 0
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9, atol=1e-12)


def test_derivatives_by_log_prob_and_entropy_reach_the_table_as_autograd_takes_them_there() -> None:
    setting = make_setting(REGIMES["long"])
    (rollouts,) = sample(setting, 1, seed=0)
    generator, mask = torch.Generator().manual_seed(0), rollouts.batch.mask
    weights = [torch.where(mask, torch.rand(mask.shape, generator=generator, dtype=torch.float64), 0.0) for _ in "ab"]
    table = setting.current.clone().requires_grad_()
    stats = token_stats(table, rollouts.place, rollouts.symbol)
    total = sum((weight * value).sum() for weight, value in zip(weights, stats, strict=True))
    (expected,) = torch.autograd.grad(total, table)
    torch.testing.assert_close(on_table(setting.current, rollouts, *weights), expected)


def expected_gradient(expression: str, responses: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Of every group of the tiny language; the policy gradient; the gradient of the target."""
    setting, objective = tiny_setting(responses=responses), parse(expression)
    found = sum(weight * update_of(objective, it, setting, 0.01).gradient for weight, it in every_group(setting))
    assert isinstance(found, torch.Tensor)
    return found, slopes_of_reward(setting), target_gradient(objective, setting)


def slopes_of_reward(setting: RegimeSetting) -> torch.Tensor:
    """The policy gradient."""
    table = setting.current.clone().requires_grad_()
    return torch.autograd.grad((setting.language.log_probs(table).exp() * setting.value).sum(), table)[0]


def test_dr_grpo_ascends_the_reward_and_a_deviation_another_function_of_it() -> None:
    found, truth, target = expected_gradient("dr_grpo", 3)
    torch.testing.assert_close(found * 2, truth * 2 / 3)  # over the limit of 2 tokens; of 3 responses 2 are others
    assert target is not None
    torch.testing.assert_close(target, truth * 2 / 3)
    found, truth, target = expected_gradient("grpo-kl+constant_length", 3)
    assert target is not None
    torch.testing.assert_close(found * 2, target)


@pytest.mark.parametrize("expression", ["maxrl+constant_length", "passk(k=2)+constant_length", "kpo+constant_length"])
def test_an_expected_gradient_is_that_of_its_own_target_where_every_token_counts_alike(expression: str) -> None:
    found, _, target = expected_gradient(expression, 3)
    assert target is not None
    torch.testing.assert_close(found * 2, target)


@pytest.mark.parametrize("expression", ["reinforce_pp", "lite_ppo", "nft"])
def test_advantages_of_more_than_a_group_and_losses_that_do_not_follow_them_have_no_target(expression: str) -> None:
    assert target_gradient(parse(expression), make_setting(REGIMES["on_policy"])) is None


def test_a_pass_begins_where_the_one_before_has_led() -> None:
    setting = make_setting(REGIMES["on_policy"])
    (rollouts,) = sample(setting, 1, seed=0)
    near, far = (update_of(parse("lopti"), rollouts, setting, step).gradient for step in (1e-12, 0.1))
    joint = update_of(parse("lopti-lopti"), rollouts, setting, 1e-12).gradient
    torch.testing.assert_close(near, joint, rtol=1e-4, atol=1e-6)
    assert (far - joint).norm() > 0.01 * joint.norm()


def test_a_part_that_touches_nothing_is_idle() -> None:
    setting = make_setting(REGIMES["on_policy"])
    rollouts = sample(setting, 8, seed=0)
    found = {
        name: measure(name, parse(name), setting, slopes(setting), rollouts, 0.01)
        for name in ("stapo", "stapo(tau_p=0.05)")
    }
    idle = {name: it.idle for name, it in found.items() if it is not None}
    assert "s2t" in idle["stapo"] and "s2t" not in idle["stapo(tau_p=0.05)"]
