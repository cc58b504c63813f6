"""DRO's vectors."""

import pytest

from objectives import ObjectiveError, parse
from tests.objectives.vectors import PER_BATCH, assert_close, batch_z, pushes


def test_the_push_is_the_advantage_less_the_log_ratio() -> None:
    rest = ([-0.485, -0.505], [-1.03, -1.125, -0.9975], [0.501])
    assert_close(pushes("dro(beta=0.05)", PER_BATCH), [0.9975, 0.985, 1.02, 0.94], *rest)


def test_responses_without_advantage_are_held_as_well() -> None:
    batch = batch_z(batch_z().advantage * 0)
    assert parse("dro(beta=0.05)").plan(batch).active.all()
    assert pushes("dro(beta=0.05)", PER_BATCH, batch)[0, 3].item() == pytest.approx(-0.06)


def test_its_weight_is_asked_for() -> None:
    with pytest.raises(ObjectiveError, match="drift needs beta, for which we know no published value"):
        parse("dro")
