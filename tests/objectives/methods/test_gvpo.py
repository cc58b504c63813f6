"""GVPO's vectors."""

import pytest
import torch

from objectives import ObjectiveError, parse
from tests.objectives.batches import random_case, token_batch
from tests.objectives.comparison import at_current, evaluate
from tests.objectives.vectors import assert_close, batch_z, pushes

DRIFT = torch.tensor([1.15, -0.2, 3.05, -0.02], dtype=torch.float64)
"""Of each response, the sum of log pi/pi_old."""


def test_a_response_is_pushed_until_its_log_prob_has_changed_by_its_advantage_over_beta() -> None:
    advantage = torch.tensor([1, -0.5, -1, 0.5], dtype=torch.float64)
    left = advantage - 0.5 * (DRIFT - DRIFT.mean())
    found = pushes("gvpo(beta=0.5)", 4.0)
    assert_close(found, *([push] * n for push, n in zip((4 / 3 * 0.5 * left).tolist(), [4, 2, 3, 1], strict=True)))


def test_the_optimum_of_the_regression_is_a_rest() -> None:
    batch, beta = batch_z(), 0.5
    change = (batch.advantage / beta / batch.mask.sum(1, keepdim=True)) * batch.mask
    found = pushes(f"gvpo(beta={beta})", 1.0, batch.with_fields(logp=batch.logp_old + change))
    assert found.abs().max() < 1e-12


def test_a_group_that_micro_batches_cut_has_the_gradient_of_the_whole() -> None:
    objective, batch = parse("gvpo"), at_current(token_batch(random_case(4, moved=True)))
    (whole,), (cut,) = (evaluate(objective, batch, rows) for rows in (None, torch.arange(len(batch.mask)).split(1)))
    assert torch.equal(whole.gradient, cut.gradient) and whole.gradient.any()


@pytest.mark.parametrize("addition", ["advantage_reweighting", "sequence_ratio", "clip_higher"])
def test_what_its_loss_does_not_read_is_refused(addition: str) -> None:
    with pytest.raises(ObjectiveError, match="has no effect on group_variance"):
        parse(f"gvpo+{addition}")
