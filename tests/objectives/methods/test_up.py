"""UP's vectors."""

import pytest

from objectives import ObjectiveError, parse
from tests.objectives.vectors import PER_BATCH, assert_close, pushes


def test_good_tokens_are_pushed_by_their_advantage_and_bad_ones_as_by_ppo() -> None:
    bad = ([0, -0.55258546], [-1.8221188, -12.182494, -0.95122942])
    assert_close(pushes("up", PER_BATCH), [1, 1, 1, 1], *bad, [0.5])
    held = ([0, -0.55258546], [-1.8221188, 0, -0.95122942])
    assert_close(pushes("up(variant=verl)", PER_BATCH), [1, 1, 1, 1], *held, [0.5])


def test_an_upper_bound_has_nothing_to_act_on() -> None:
    with pytest.raises(ObjectiveError, match="clip_higher has no effect on unbounded_positive"):
        parse("up+clip_higher")
    assert parse("justrl+up") == parse("grpo+token_mean+unbounded_positive-kl")
