"""The vectors of IcePop and of the other corrections for the sampling engine."""

import pytest
import torch
from torch import Tensor

from objectives import ObjectiveError, Weight, parse
from tests.objectives.vectors import assert_close, batch_z, tokens


def weights(settings: str) -> Tensor:
    """[4, 4] on batch Z."""
    batch, part = batch_z(), parse(f"sampler_correction({settings})").the(Weight)
    return part.weight(batch) * batch.mask


def rows(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)[:, None] * batch_z().mask


def test_tokens_outside_the_band_have_no_weight() -> None:
    found = weights("cap=5,low=0.5,outside=drop")
    assert_close(found, [1.0202013, 0, 2.4596031, 0], [0.99004983, 1.0100502], [1, 1.0010005, 1], [0])
    found = weights("cap=none")
    raw = [1.0202013, 0.44932896, 2.4596031, 5.4739474]
    assert_close(found, raw, [0.99004983, 1.0100502], [1, 1.0010005, 1], [0.13533528])
    assert weights("cap=2")[0].tolist() == pytest.approx([1.0202013, 0.44932896, 2, 2])


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("level=product,cap=none", [6.17185845, 1, 1.0010005, 0.13533528]),
        ("level=product", [2, 1, 1.0010005, 0.13533528]),
        ("level=product,cap=3,outside=drop", [0, 1, 1.0010005, 0.13533528]),
        ("level=geometric", [1.57617338, 1, 1.00033339, 0.13533528]),
    ],
)
def test_a_response_has_one_weight_at_its_level(settings: str, expected: list[float]) -> None:
    torch.testing.assert_close(weights(settings), rows(*expected), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize(
    ("mask", "kept"),
    [
        ("sampler_mask", [0, 1, 1, 0]),
        ("off_policy_mask(delta=0.05)", [1, 0, 1, 1]),
        ("off_policy_mask(delta=0.05,anchor=sampler)", [1, 0, 1, 1]),
        ("off_policy_mask(delta=0.1000001)", [1, 1, 1, 1]),
    ],
)
def test_whole_responses_are_dropped(mask: str, kept: list[int]) -> None:
    batch = batch_z()
    plan = parse(f"grpo-kl+{mask}").plan(batch)
    silenced = plan.touched[mask.split("(")[0]]
    assert torch.equal(silenced, batch.mask & (tokens(*([1 - keep] * 4 for keep in kept)) > 0))
    assert (plan.policy_coefficient[0, 0] == 1 / 16) == (kept[0] == 1)


def test_a_fall_that_nobody_published_is_asked_for() -> None:
    with pytest.raises(ObjectiveError, match="off_policy_mask needs delta, for which we know no published value"):
        parse("grpo+off_policy_mask")


def test_bounds_that_leave_nothing_are_refused() -> None:
    with pytest.raises(ObjectiveError, match=r"low=2 exceeds high=1\.002"):
        parse("sampler_mask(low=2)")
