"""TPO beside the sketch that its paper prints."""

import torch
from torch.nn import functional as F

from objectives import parse
from tests.objectives.batches import random_case, token_batch
from tests.objectives.comparison import at_current, evaluate
from tests.objectives.vectors import batch_z, pushes


def test_a_push_is_that_of_the_papers_sketch() -> None:
    batch, eta = batch_z(), 0.5
    logp = batch.logp.clone().requires_grad_()
    now, old = ((values * batch.mask).sum(1) for values in (logp, batch.logp_old))
    target = F.softmax(F.log_softmax(old, -1) + batch.advantage[:, 0] / eta, -1)
    loss = -(target * F.log_softmax(now, -1)).sum(-1)
    (expected,) = torch.autograd.grad(loss, logp)
    torch.testing.assert_close(pushes(f"tpo(eta={eta})", 1.0), -expected)


def test_the_target_is_a_rest_and_equal_rewards_make_the_old_policy_the_target() -> None:
    batch = batch_z()
    equal = batch.with_fields(advantage=batch.advantage * 0)
    assert pushes("tpo", 1.0, equal.with_fields(logp=equal.logp_old)).abs().max() < 1e-15
    assert pushes("tpo", 1.0, equal).abs().max() > 0.1
    tilt = batch.advantage / batch.mask.sum(1, keepdim=True) * batch.mask
    assert pushes("tpo", 1.0, batch.with_fields(logp=batch.logp_old + tilt)).abs().max() < 1e-12


def test_a_group_that_micro_batches_cut_has_the_gradient_of_the_whole() -> None:
    objective, batch = parse("tpo"), at_current(token_batch(random_case(4, moved=True)))
    (whole,), (cut,) = (evaluate(objective, batch, rows) for rows in (None, torch.arange(len(batch.mask)).split(1)))
    assert torch.equal(whole.gradient, cut.gradient) and whole.gradient.any()


def test_the_target_stays_while_the_rollouts_are_passed_over_again() -> None:
    objective, batch = parse("tpo+epochs(count=2)"), at_current(token_batch(random_case(4, moved=True)))
    first, second = evaluate(objective, batch)
    assert torch.equal(first.gradient, second.gradient)
