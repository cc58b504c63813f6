"""REAL's vectors."""

import pytest
import torch

from objectives import ObjectiveError, parse
from tests.objectives.batches import random_case, token_batch
from tests.objectives.comparison import at_current, evaluate
from tests.objectives.vectors import PER_RESPONSE, assert_close, batch_z, loss_of, pushes, rollouts_z, tokens

ROWS = [0.4322654, -0.1731254, -1.61541877, 0.79954255]


def test_a_response_is_pushed_by_what_is_left_to_tell_it_from_the_others() -> None:
    assert loss_of("real") == pytest.approx(3.20374899, abs=1e-8)
    found = pushes("real", PER_RESPONSE / 4)
    assert_close(found, *([push] * length for push, length in zip(ROWS, [4, 2, 3, 1], strict=True)))


def test_the_derivative_is_that_of_the_loss() -> None:
    batch, step = batch_z(), 1e-6
    moved = batch.with_fields(logp=batch.logp + step * tokens([1] * 4, [0] * 2, [0] * 3, [0]))
    slope = (loss_of("real", moved) - loss_of("real")) / step
    assert slope == pytest.approx(-ROWS[0], rel=1e-4)


def test_no_response_is_pushed_by_more_than_one_over_tau() -> None:
    objective = parse("real(tau=0.25)+seq_sum")
    for seed in range(20):
        batch = at_current(token_batch(random_case(seed)))
        plan = objective.plan(objective.prepare(batch))
        sizes = (batch.group[:, None] == batch.group[None]).sum(1)
        assert (plan.extra["push"].abs() <= sizes / 0.25).all()
        assert plan.extra["push"].isfinite().all()


def test_groups_of_one_kind_teach_nothing() -> None:
    alone = batch_z(tokens([1] * 4, [0.5] * 2, [1] * 3, [0.5]))
    assert loss_of("real", alone) == 0 and (pushes("real", 1.0, alone) == 0).all()
    empty = rollouts_z().with_fields(mask=torch.zeros(4, 4).bool())
    assert all((update.gradient == 0).all() for update in evaluate(parse("real"), empty))


def test_a_tiny_temperature_stays_finite() -> None:
    batch = token_batch(random_case(3, moved=True), torch.float32)
    assert all(update.gradient.isfinite().all() for update in evaluate(parse("real(tau=0.01)"), batch))


@pytest.mark.parametrize("addition", ["advantage_reweighting", "sequence_ratio", "clip_higher", "dual_clip"])
def test_what_its_loss_does_not_read_is_refused(addition: str) -> None:
    with pytest.raises(ObjectiveError, match="has no effect on group_contrast"):
        parse(f"real+{addition}")


def test_where_nothing_has_moved_a_kind_shares_its_push_with_the_anchor() -> None:
    batch = batch_z(tokens([1] * 4, [-1] * 2, [-1] * 3, [-1])).with_fields(logp=batch_z().logp_old)
    found = pushes("real", PER_RESPONSE / 4, batch)
    assert_close(found, [2 / 2] * 4, *([-2 / 4] * length for length in (2, 3, 1)))
