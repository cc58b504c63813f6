"""Whole runs of the embedded model on the pretended device: what they leave is what a CPU's leave."""

from pathlib import Path

import pytest

from rlzoo.files import read_json_lines
from rlzoo.model.accelerator import SIZES
from tests.simulated_device import SimulatedDevice
from tests.training.test_train import run

OBJECTIVES = ["stapo+clip_higher", "lopti+stare(adaptive=true)+kl"]
EACH = (
    "train.steps=2",
    "checkpoint.every=1",
    "checkpoint.keep=9",
    "rollout.prompts_per_step=2",
    "rollout.max_response_tokens=12",
    "evaluation.problems=2",
    "evaluation.samples=1",
)


@pytest.fixture(autouse=True)
def small_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a GPU multiplies to say how fast it is takes the CPU underneath minutes."""
    monkeypatch.setitem(SIZES, "cuda", (64,))


@pytest.mark.parametrize("objective", [OBJECTIVES[1], pytest.param(OBJECTIVES[0], marks=pytest.mark.slow)])
@pytest.mark.slow
def test_training_on_the_device_is_that_on_the_cpu_and_resumes_there(objective: str, tmp_path: Path) -> None:
    words = (f"objective={objective}", *EACH)
    expected = run(tmp_path / "cpu", *words)
    with SimulatedDevice():
        run(tmp_path / "device", *words, "train.steps=1")
        found = run(tmp_path / "device", *words, "resume=true")
    assert found.metrics.read_text() == expected.metrics.read_text()
    last = [folder / "checkpoints" / "step-000002" / "model.safetensors" for folder in (found, expected)]
    assert last[0].read_bytes() == last[1].read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [("model.precision=bfloat16",), pytest.param(("model.gradient_checkpointing=true",), marks=pytest.mark.slow)],
)
def test_other_precisions_and_checkpointed_layers_train_on_the_device(words: tuple[str, ...], tmp_path: Path) -> None:
    with SimulatedDevice():
        metrics = read_json_lines(run(tmp_path / "run", *EACH, "train.steps=1", *words).metrics)
    assert [line["updates_skipped"] for line in metrics] == [0]
