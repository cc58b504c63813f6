"""Law 1 with real processes: two of them, joined by gloo, accumulate the gradient that one does."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file

from tests.rank_gradients import EXPRESSIONS

LAUNCH = ["accelerate.commands.launch", "--cpu", "--num_processes", "2", "--num_machines", "1"]
LAUNCH += [
    "--mixed_precision",
    "no",
    "--dynamo_backend",
    "no",
    "--num_cpu_threads_per_process",
    "1",
    "--main_process_port",
    "0",
    "-m",
]


def test_two_processes_have_the_gradients_and_metrics_of_one(tiny_model: Path, tmp_path: Path) -> None:
    for name, launch in (("one", []), ("two", LAUNCH)):
        command = [sys.executable, "-m", *launch, "tests.rank_gradients", tiny_model, tmp_path / f"{name}.safetensors"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=Path(__file__).parents[1])
        assert done.returncode == 0, done.stderr[-3000:]
    one, two = load_file(tmp_path / "one.safetensors"), load_file(tmp_path / "two.safetensors")
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
        if expression not in apart:
            assert metrics[1][expression] == pytest.approx(values, rel=1e-9, abs=1e-12), expression
