"""GPG's vectors."""

import pytest
import torch

from objectives import ObjectiveError, parse
from tests.objectives.vectors import PER_BATCH, assert_close, batch_r, loss_of, pushes


@pytest.mark.parametrize(
    ("variant", "mixed", "right", "wrong"),
    [
        ("paper", 0.75, 0.375, -1.125),
        ("authors", 0.75, 0.375, -1.125),
        ("verl", 0.66666667, 0.33333333, -1),
    ],
)
def test_what_differs_is_scaled_up_for_what_does_not(variant: str, mixed: float, right: float, wrong: float) -> None:
    expected = [mixed, -mixed, -mixed, mixed, right, right, right, wrong, 0, 0, 0, 0]
    found = parse(f"gpg(variant={variant})").advantages(batch_r())
    assert found.tolist() == pytest.approx(expected, abs=1e-7)


def test_without_the_groups_that_teach_nothing_there_is_no_factor() -> None:
    found = parse("gpg+dynamic_sampling").advantages(batch_r())[:8]
    torch.testing.assert_close(found, parse("dr_grpo").advantages(batch_r())[:8])


def test_the_push_is_the_advantage_however_far_the_policy_has_moved() -> None:
    assert_close(pushes("gpg", PER_BATCH), [1] * 4, [-0.5] * 2, [-1] * 3, [0.5])
    assert loss_of("gpg") == pytest.approx(-(4 * 1 - 2 * 0.5 - 3 * 1 + 0.5) / 10)


@pytest.mark.parametrize("ratio", ["sequence_ratio", "sequence_ratio(norm=sum)"])
def test_a_ratio_that_nobody_reads_is_refused_or_dropped(ratio: str) -> None:
    with pytest.raises(ObjectiveError, match=r"sequence_ratio.* has no effect on reinforce, which does not read it"):
        parse(f"gpg+{ratio}")
    assert parse("topr+reinforce") == parse("grpo-kl+signed_reward(right=1)+reinforce")
    assert parse(parse("topr+reinforce").expression) == parse("topr+reinforce")
