"""KPO's vectors."""

import pytest
import torch

from objectives import parse
from objectives.methods.sequences import KalmanRatio
from objectives.scan import recurrence
from tests.objectives.vectors import PER_RESPONSE, pushes, small_batch, tokens


def test_the_gains_and_the_filtered_log_ratios_are_the_published_ones() -> None:
    gains = KalmanRatio(q=1).gains(torch.arange(1, 6)).tolist()
    assert gains == pytest.approx([0.5, 0.6, 0.615385, 0.617647, 0.617978], abs=1e-6)
    old = torch.full((1, 5), 0.3, dtype=torch.float64)
    batch = small_batch(old, [1.0], [0], logp=old.log() + tokens([0.4, -0.2, 0.1, 0, 0.3]), advantage=old)
    ratio = parse("kpo(q=1)").parts[1].ratio(batch, batch.logp)
    assert ratio.log()[0].tolist() == pytest.approx([0.2, -0.04, 0.046154, 0.017647, 0.192135], abs=1e-6)


def test_the_gains_grow_for_thousands_of_tokens() -> None:
    gains = KalmanRatio().gains(torch.arange(1, 8193))
    assert gains[[0, 99, 999]].tolist() == pytest.approx([1e-6, 1e-4, 7.6e-4], rel=0.01)
    assert gains[-1].item() == pytest.approx(9.995e-4, rel=1e-4)


def test_the_recurrence_is_that_of_a_loop_however_long() -> None:
    draw = torch.Generator().manual_seed(0)
    for width in (0, 1, 2, 7, 8, 9, 1000):
        decay, step = (torch.rand(3, width, dtype=torch.float64, generator=draw) for _ in range(2))
        state, states = torch.zeros(3, dtype=torch.float64), []
        for t in range(width):
            state = decay[:, t] * state + step[:, t]
            states.append(state)
        expected = torch.stack(states, 1) if states else step
        torch.testing.assert_close(recurrence(decay, step), expected, rtol=1e-13, atol=0)


def test_with_noise_without_end_it_is_the_token_ratio() -> None:
    found = pushes("kpo(q=1e12)", PER_RESPONSE)
    torch.testing.assert_close(
        found, pushes("clip(low=3e-4)+clip_higher(high=4e-4)-kl", PER_RESPONSE), rtol=1e-9, atol=1e-9
    )
