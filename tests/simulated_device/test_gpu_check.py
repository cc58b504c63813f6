"""`make gpu-check` on the pretended device: it runs to its end, and says what does not hold; without one it says so."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from benchmarks.gpu import check
from objectives import TokenBatch
from objectives.methods.tokens import TopEntropy
from rlzoo.model import varlen
from rlzoo.model.accelerator import make_accelerator
from rlzoo.model.flops import SIZES
from rlzoo.model.policy import Policy
from tests.simulated_device import SimulatedDevice
from tests.simulated_device.machine import DEVICE

SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
SMALL |= {"num_key_value_heads": 1, "head_dim": 16, "vocab_size": 64}
GIBIBYTES = 3


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


@pytest.mark.slow
def test_gradients_hold_there_and_waits_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.objectives.zoo_sample.RECIPES", ["stapo"])
    monkeypatch.setattr("tests.objectives.zoo_sample.PARTS", ["kl"])
    with SimulatedDevice() as machine:
        monkeypatch.setattr(check, "_only_the_cpu", lambda: left(machine))
        assert check.gradients(DEVICE).holds
        monkeypatch.setattr(check, "WAITS", -10)
        assert "waits 0 times" in check.gradients(DEVICE).text


NOISE = 1e-7
"""What another order of additions leaves on hidden states."""
TIED = "entropy20(fraction=0.35)"
"""Its quantile falls on an entropy that several tokens behind equal prefixes have."""


@pytest.mark.slow
def test_rounding_that_decides_ties_is_no_false_alarm_and_a_wrong_choice_among_them_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.objectives.zoo_sample.RECIPES", [TIED])
    monkeypatch.setattr("tests.objectives.zoo_sample.PARTS", [])
    body, chosen, noise = Policy._body, TopEntropy.keeps, torch.Generator().manual_seed(0)

    def rounded(policy: Policy, inputs: Tensor, **options: Any) -> Tensor:
        states = body(policy, inputs, **options)
        if not inputs.is_cuda:
            return states
        return states + (NOISE * torch.randn(states.shape, generator=noise)).to(DEVICE)

    def surest(part: TopEntropy, batch: TokenBatch) -> Tensor:
        kept = chosen(part, batch)
        return batch.mask & ~kept if batch.mask.is_cuda else kept

    with SimulatedDevice() as machine:
        monkeypatch.setattr(check, "_only_the_cpu", lambda: left(machine))
        monkeypatch.setattr(Policy, "_body", rounded)
        assert check.gradients(DEVICE).holds
        monkeypatch.setattr(TopEntropy, "keeps", surest)
        finding = check.gradients(DEVICE)
    assert not finding.holds and f"**{TIED}**" in finding.text


@pytest.mark.slow
def test_rows_without_masks_hold_there_and_a_wrong_result_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with SimulatedDevice():
        assert check.attention(DEVICE).holds
        kernel = varlen._by_kernel
        monkeypatch.setattr(varlen, "_by_kernel", lambda q, k, v, *others: kernel(q, k, 2 * v, *others))
        finding = check.attention(DEVICE)
    assert not finding.holds and "**mistral, bfloat16**" in finding.text and "float32" not in finding.text


@contextmanager
def left(machine: SimulatedDevice) -> Iterator[None]:
    """Meanwhile there is no device: it refuses collectives of the CPU."""
    machine.__exit__()
    yield
    machine.__enter__()


def test_what_is_compared_with_is_calculated_on_the_cpu() -> None:
    with SimulatedDevice():
        with check._only_the_cpu():
            assert make_accelerator("float32").device.type == "cpu"
        assert make_accelerator("float32").device.type == "cuda"


@pytest.mark.exhaustive
def test_every_phase_that_is_predicted_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(check, "SIZES", SMALL)
    monkeypatch.setattr(check, "RUN", (*check.RUN, "rollout.max_response_tokens=8", "train.tokens_per_micro_batch=80"))
    with SimulatedDevice():
        monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: GIBIBYTES * 2**30)
        found = check.peaks(("model.gradient_checkpointing=true",))
        page = check.page([check.memory(DEVICE)])
    assert list(found) == ["rollout", "scoring", "training", "hand-over"]
    assert all(predicted > 0 and measured == GIBIBYTES * 2**30 for predicted, measured in found.values())
    assert "DOES NOT HOLD" in page and page.count("| training |") == len(check.KEYS)


def test_a_check_that_fails_costs_no_other() -> None:
    finding = check.attempted(lambda device: 1 / 0, DEVICE)  # type: ignore[arg-type, return-value]
    assert not finding.holds and "ZeroDivisionError" in finding.text


def test_statistics_that_differ_are_far_though_the_gradients_planned_with_them_are_equal() -> None:
    gradient, entropy = torch.ones(3), torch.linspace(0.1, 2.0, 6).view(2, 3)
    there = check.Updates([gradient], [(entropy, None)])
    assert there.farthest(check.Updates([gradient], [(entropy + 1e-7, None)])) < check.GRADIENT
    assert there.farthest(check.Updates([gradient], [(entropy * 1.01, None)])) > check.GRADIENT
