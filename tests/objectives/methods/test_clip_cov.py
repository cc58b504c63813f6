"""Clip-Cov's vectors."""

import pytest
import torch

from objectives import drawn, parse
from objectives.order import lottery
from tests.objectives.methods.clip_cov_reference import splitmix64
from tests.objectives.vectors import PER_BATCH, assert_close, batch_z, pushes

CHOICE = "clip_cov(fraction=0.2,low=0.1,high=1)"


def test_two_of_the_five_tokens_in_the_band_are_drawn_by_their_hash() -> None:
    found = pushes(CHOICE, PER_BATCH)
    assert_close(found, [1.0512711, 0, 0.67032005, 0], [0, -0.55258546], [-1.8221188, -12.182494, -0.95122942], [0])
    plan = parse(CHOICE).plan(batch_z())
    assert plan.touched["clip_cov"].nonzero().tolist() == [[0, 1], [3, 0]]
    kept = ~plan.touched["clip_cov"] & plan.batch.mask
    assert (plan.policy_coefficient[kept] == 1 / 10).all()


@pytest.mark.parametrize(
    ("logp", "key"),
    [
        (-1.0, 0xA9D88AC0153E159A),
        (-0.5, 0x2E06F253D7657712),
        (-2.5, 0xE0191234CA04FA08),
        (-4.0, 0x8181E14A16290164),
        (-0.7, 0x5E2D2C436C0BEA6A),
    ],
)
def test_the_lot_of_a_log_prob_is_the_published_hash(logp: float, key: int) -> None:
    assert splitmix64(logp) == key
    assert lottery(torch.tensor([logp], dtype=torch.float64)).item() == key - (1 << 63)


def test_the_lot_is_that_of_the_value_alone() -> None:
    values = torch.tensor([[-1.0, -0.5, 0.0], [-2.5, -0.5, -0.0]])
    assert torch.equal(lottery(values), lottery(values.double()))
    assert lottery(values)[0, 1] == lottery(values)[1, 1]
    assert lottery(values)[0, 2] == lottery(values)[1, 2]


def test_as_many_are_drawn_as_asked_for_and_never_outside_the_pool() -> None:
    values = -torch.rand(40, 50, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    among = values < -0.5
    for count in (0, 1, 7, 500, 10**6):
        chosen = drawn(values, among, count)
        assert chosen.sum() == min(count, int(among.sum()))
        assert not (chosen & ~among).any()
    half = drawn(values, among, int(among.sum()) // 2)
    assert -0.78 < values[half].mean() < -0.72


def test_the_last_bits_of_a_float64_have_no_say() -> None:
    values = -torch.rand(40, 50, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    among = torch.ones_like(values).bool()
    assert torch.equal(drawn(values * (1 + 1e-15), among, 100), drawn(values, among, 100))
