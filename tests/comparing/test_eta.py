"""The time that a grid has left is about right from its first step on: starting a run is no step."""

import math
from collections.abc import Sequence

import pytest

from rlzoo.comparing.compare import CellStatus, Eta
from rlzoo.comparing.grid import RowName

STEPS = 50


def at(time: float, begins: float, start: float, step: float, end: float) -> CellStatus:
    """A run that began at some time: it starts, takes its steps, and is evaluated."""
    since = time - begins
    done = min(STEPS, max(0, int((since - start) / step)))
    is_done = since >= start + STEPS * step + end
    state = "done" if is_done else "running" if since >= 0 else "waiting"
    return CellStatus(RowName("grpo"), 0, state, done, STEPS, None, step if done else 0.0)


def cells(time: float, jobs: int, start: float, step: float, end: float, runs: int = 4) -> list[CellStatus]:
    """A grid with some runs at a time, and a second between one and the next."""
    length = start + STEPS * step + end + 1
    return [at(time, run // jobs * length, start, step, end) for run in range(runs)]


@pytest.mark.parametrize("jobs", [1, 2, 3])
@pytest.mark.parametrize(("start", "step", "end"), [(10.0, 1.0, 10.0), (30.0, 0.2, 30.0), (5.0, 4.0, 10.0)])
def test_from_the_first_step_on_the_estimate_is_within_a_quarter(
    jobs: int, start: float, step: float, end: float
) -> None:
    eta, whole, time = Eta(), (start + STEPS * step + end + 1) * math.ceil(4 / jobs) - 1, 0.0
    estimates = []
    while time < whole:
        now: Sequence[CellStatus] = cells(time, jobs, start, step, end)
        eta.see(now, time)
        estimates.append((time, eta.left(now, time)))
        time += 0.2
    known = [(time, left) for time, left in estimates if left is not None]
    assert known[0][0] <= start + 2 * step + 0.4
    for time, left in known:
        assert abs(left - (whole - time)) <= 0.25 * (whole - time) + 2, time


def test_steps_of_an_earlier_call_are_no_start() -> None:
    eta = Eta()
    before = CellStatus(RowName("grpo"), 0, "waiting", 20, STEPS, None, 1.0)
    eta.see([before], 0.0)
    for time, step, state in ((0.2, 20, "running"), (8.0, 20, "running"), (9.0, 21, "running")):
        now = [CellStatus(RowName("grpo"), 0, state, step, STEPS, None, 1.0)]
        eta.see(now, time)
        left = eta.left(now, time)
        assert left is None if step == 20 else left == pytest.approx(29 + 7.8)
