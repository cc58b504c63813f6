"""HAPO's vectors."""

import pytest
import torch

from objectives import ObjectiveError, TokenBatch, parse
from objectives.methods.trust_regions import HeterogeneousClip, ZoneReweighting
from tests.objectives.vectors import small_batch, tokens


def test_an_entropy_lies_between_the_surest_and_the_least_sure() -> None:
    entropy = tokens([0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 1.5, 0.3, 0.05])
    batch = small_batch(torch.full((1, 10), 0.5).double(), [1.0], [0], entropy=entropy)
    expected = [-1, -0.823, -0.589, -0.411, -0.234, 0, 0.631, 1, -0.131, -0.589]
    assert HeterogeneousClip().height(batch)[0].tolist() == pytest.approx(expected, abs=6e-4)


def test_a_groups_tokens_give_mean_and_deviation() -> None:
    lengths = torch.tensor([10, 30, 40, 20])
    reward = torch.tensor([1, 0, 0, 1], dtype=torch.float64)
    batch = TokenBatch(mask=torch.arange(40) < lengths[:, None], group=torch.zeros(4).long(), reward=reward)
    found = parse("token_group_norm").advantages(batch).tolist()
    assert found == pytest.approx([1.5275, -0.6547, -0.6547, 1.5275], abs=1e-4)


def test_a_group_with_a_large_advantage_has_the_z_score_of_its_rewards() -> None:
    lengths = torch.tensor([100] + [400] * 15)
    reward = (torch.arange(16) == 0).double()
    batch = TokenBatch(mask=torch.arange(400) < lengths[:, None], group=torch.zeros(16).long(), reward=reward)
    assert parse("token_group_norm").advantages(batch).tolist() == pytest.approx([3.75] + [-0.25] * 15, abs=1e-4)
    assert parse("token_group_norm(guard=9)").advantages(batch)[0].item() == pytest.approx(7.75, abs=5e-3)


def test_zone_and_clip_have_the_same_widths() -> None:
    height = torch.linspace(-1, 1, 9)
    for variant in ("paper", "authors"):
        objective = parse(f"hapo(variant={variant})")
        zone, clip = objective.the(ZoneReweighting).widths(height), objective.the(HeterogeneousClip).widths(height)
        assert all(torch.equal(first, second) for first, second in zip(zone, clip, strict=True))
        assert clip[0].amax() == pytest.approx(0.4)


@pytest.mark.parametrize("setting", ["alpha=0.5", "low=0.1", "high=0.2", "rho=0.5", "scope=microbatch"])
@pytest.mark.parametrize("part", ["zone_reweighting", "heterogeneous_clip"])
def test_zone_and_clip_of_different_widths_are_refused(part: str, setting: str) -> None:
    with pytest.raises(ObjectiveError, match=rf"{setting.split('=')[0]}=.* disagree: leave one of them out"):
        parse(f"hapo+{part}({setting})")
    assert parse(f"hapo+zone_reweighting({setting})+heterogeneous_clip({setting})")


def test_adding_it_brings_its_dual_clip() -> None:
    assert parse("dapo+hapo-soft_overlong-dynamic_sampling") == parse("hapo")
    assert "10 min(A, 0)" in parse("stapo+hapo").equation


def test_the_equation_says_what_h_is() -> None:
    equation = parse("hapo").equation
    assert equation.count("h = log H") == 1
    assert "outside 1 - 0.1 (1 - 1 min(h, 0)) .. 1 + 0.14 (1 + 1 max(h, 0))" in equation
