"""Law 1 with real processes: two of them, joined by gloo, accumulate the gradient that one does."""

import json
from pathlib import Path

import pytest
from safetensors.torch import load_file

from rlzoo.files import read_json_lines
from tests.processes import ONE, TWO, launch
from tests.training.rank_gradients import EXPRESSIONS


@pytest.mark.slow
def test_two_processes_have_the_gradients_and_metrics_of_one(tiny_model: Path, tmp_path: Path) -> None:
    for name, launcher in (("one", ONE), ("two", TWO)):
        launch([*launcher, "-m", "tests.training.rank_gradients", tiny_model, tmp_path / f"{name}.safetensors"])
    one, two = load_file(tmp_path / "one.safetensors"), load_file(tmp_path / "two.safetensors")
    assert [json.loads((tmp_path / f"{name}.json").read_text()).pop("processes") for name in ("one", "two")] == [1, 2]
    assert one.keys() == two.keys()
    assert {name.split(" update ")[0] for name in one} == set(EXPRESSIONS)
    apart = [expression for expression in EXPRESSIONS if "authors" in expression]
    for name, gradient in one.items():
        if not any(name.startswith(expression) for expression in apart):
            assert (two[name] - gradient).abs().max() <= 1e-10 * gradient.abs().max(), name
    largest = {expression: 0.0 for expression in EXPRESSIONS}
    for name, gradient in one.items():
        expression = name.split(" update ")[0]
        largest[expression] = max(largest[expression], gradient.abs().max().item())
    assert min(largest.values()) > 0
    metrics = [json.loads((tmp_path / f"{name}.json").read_text()) for name in ("one", "two")]
    for expression, values in metrics[0].items():
        if expression not in (*apart, "processes"):
            assert metrics[1][expression] == pytest.approx(values, rel=1e-9, abs=1e-12), expression


@pytest.mark.slow
def test_two_processes_train_one_run_together(tmp_path: Path) -> None:
    words = ["train.steps=2", "rollout.prompts_per_step=8", "evaluation.problems=4", "evaluation.samples=1"]
    said = launch([*TWO, "-m", "rlzoo", "train", "objective=dapo", "output=run", *words], tmp_path)
    assert said.count("on cpu in 2 processes") == 1
    metrics = read_json_lines(tmp_path / "run" / "metrics.jsonl")
    assert [line["step"] for line in metrics] == [1, 2]
    timings = read_json_lines(tmp_path / "run" / "timings.jsonl")
    assert all(0 < line["generate_positions"] < 8 * 8 * 40 for line in timings)
