"""`make gpu-check` on the pretended device: it runs to its end, and says what does not hold; without one it says so."""

import re

import pytest
import torch

from benchmarks.gpu import check
from rlzoo.model.accelerator import SIZES, make_accelerator
from tests.simulated_device import SimulatedDevice
from tests.simulated_device.machine import DEVICE


@pytest.fixture(autouse=True)
def of_cuda_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the pretended device lacks: counters that can be set back, and warnings where the host waits."""
    monkeypatch.setitem(SIZES, "cuda", (64,))
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", lambda mode: None)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: None)


def test_without_a_gpu_it_is_one_line_and_status_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["check"])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert check.main() == 2
    said = capsys.readouterr()
    assert not said.out and re.fullmatch(r"gpu-check: .* sees no CUDA GPU here; .*\n", said.err)


def test_the_laws_hold_there_and_a_wrong_result_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.simulated_device.test_zoo.SEEDS", range(1))
    monkeypatch.setattr("tests.simulated_device.test_zoo.EXPRESSIONS", ["grpo", "stapo"])
    with SimulatedDevice():
        assert check.laws(DEVICE).holds
        step = check.distance
        monkeypatch.setattr(check, "distance", lambda found, expected: step(found * (1 + 1e-6), expected))
        finding = check.laws(DEVICE)
    assert not finding.holds and "**stapo**" in finding.text


def test_what_is_compared_with_is_calculated_on_the_cpu() -> None:
    with SimulatedDevice():
        with check._only_the_cpu():
            assert make_accelerator("float32").device.type == "cpu"
        assert make_accelerator("float32").device.type == "cuda"


def test_a_check_that_fails_costs_no_other() -> None:
    finding = check.attempted(lambda device: 1 / 0, DEVICE)  # type: ignore[arg-type, return-value]
    assert not finding.holds and "ZeroDivisionError" in finding.text


def test_statistics_that_differ_are_far_though_the_gradients_planned_with_them_are_equal() -> None:
    gradient, entropy = torch.ones(3), torch.linspace(0.1, 2.0, 6).view(2, 3)
    there = check.Updates([gradient], [(entropy, None)])
    assert there.farthest(check.Updates([gradient], [(entropy + 1e-7, None)])) < check.GRADIENT
    assert there.farthest(check.Updates([gradient], [(entropy * 1.01, None)])) > check.GRADIENT
