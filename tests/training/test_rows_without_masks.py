"""Whole runs with rows without masks: the metrics of padded and shared ones, and bitwise themselves when resumed."""

from pathlib import Path

import pytest

from rlzoo.files import read_json_lines
from tests.training.test_train import run

WORDS = ("objective=stapo+clip_higher+kl", "train.steps=2", "checkpoint.every=1", "evaluation.problems=2")


@pytest.mark.slow
def test_a_run_has_the_metrics_of_sdpa_and_resumes_bitwise(tmp_path: Path) -> None:
    expected = read_json_lines(run(tmp_path / "sdpa", *WORDS).metrics)
    whole = run(tmp_path / "whole", *WORDS, "model.attention=varlen")
    found = read_json_lines(whole.metrics)
    assert found != expected
    for line, other in zip(found, expected, strict=True):
        assert line == pytest.approx(other, rel=1e-3, abs=1e-5)  # `sampler/largest_difference` is rounding itself
    run(tmp_path / "resumed", *WORDS, "model.attention=varlen", "train.steps=1")
    resumed = run(tmp_path / "resumed", *WORDS, "model.attention=varlen", "resume=true")
    assert resumed.metrics.read_text() == whole.metrics.read_text()
    last = [folder / "checkpoints" / "step-000002" / "model.safetensors" for folder in (whole, resumed)]
    assert last[0].read_bytes() == last[1].read_bytes()
