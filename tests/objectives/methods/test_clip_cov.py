"""Clip-Cov's vectors."""

import pytest
import torch

from objectives import drawn, lots, parse
from tests.objectives.vectors import PER_BATCH, assert_close, batch_z, pushes

CHOICE = "clip_cov(fraction=0.2,low=0.1,high=1)"
GROUP = torch.tensor([7, 7, 7, 3, 3])


def test_two_of_the_four_tokens_in_the_band_are_drawn_and_none_that_the_clip_holds() -> None:
    found = pushes(CHOICE, PER_BATCH)
    assert_close(found, [0, 0, 0.67032005, 0], [0, 0], [-1.8221188, -12.182494, -0.95122942], [0.49009934])
    plan = parse(CHOICE).plan(batch_z())
    assert plan.touched["clip_cov"].nonzero().tolist() == [[0, 0], [1, 1]]
    wide = parse(CHOICE + "+clip_higher(high=3)").plan(batch_z()).touched["clip_cov"]
    assert wide.nonzero().tolist() == [[0, 0], [0, 1]]
    kept = ~plan.touched["clip_cov"] & plan.batch.mask
    assert (plan.policy_coefficient[kept] == 1 / 10).all()


def test_the_lot_is_that_of_seed_group_row_and_position_alone() -> None:
    lot = lots(GROUP, 9, seed=5)
    assert torch.equal(lots(GROUP, 12, seed=5)[:, :9], lot)
    assert torch.equal(lots(GROUP[[3, 0, 4, 1, 2]], 9, seed=5), lot[[3, 0, 4, 1, 2]])
    assert torch.equal(lots(torch.tensor([3, 9, 3]), 9, seed=5)[[0, 2]], lot[3:])
    assert len(torch.cat([lot, lots(GROUP, 9, seed=6)]).unique()) == 90
    assert lots(torch.tensor([3]), 1, seed=5).item() == lot[3, 0]


def test_lots_look_random() -> None:
    lot = lots(torch.arange(200) // 8, 50, seed=0).double() / 2**63
    assert abs(lot.mean()) < 0.02
    assert lot.std().item() == pytest.approx(3**-0.5, abs=0.01)
    for lag in (lot[:, 1:] * lot[:, :-1], lot[1:] * lot[:-1]):
        assert abs(lag.mean()) < 0.015


def test_as_many_are_drawn_as_asked_for_and_never_outside_the_pool() -> None:
    lot = lots(torch.zeros(40).long(), 50, seed=0)
    among = (torch.arange(40)[:, None] + torch.arange(50)) % 3 > 0
    for count in (0, 1, 7, 500, 10**6):
        chosen = drawn(lot, among, count)
        assert chosen.sum() == min(count, int(among.sum()))
        assert not (chosen & ~among).any()


def test_the_last_bits_of_recomputed_log_probs_have_no_say() -> None:
    batch = batch_z()
    again = batch.with_fields(logp_old=batch.logp_old * (1 + 1e-12), logp=batch.logp * (1 - 1e-12))
    found, expected = (parse(CHOICE).plan(it).touched["clip_cov"] for it in (again, batch))
    assert torch.equal(found, expected)
