"""A change that moves code changes no key, no gradient, no metric and no verdict.

The committed values were made at the commit that added this file, those of processors with AVX2 at 10ca8b4b. Metrics
renamed since then are in `renamed.json`.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from objectives import parse
from tests.golden import guard
from tests.processes import TWO, launch


def committed(name: str) -> Any:
    return json.loads((guard.VALUES / f"{name}.json").read_text(encoding="utf-8"))


def test_every_recipe_and_variant_has_its_key() -> None:
    assert {text: parse(text).key for text in guard.expressions()} == guard.expressions()


def test_every_recipe_and_variant_has_its_gradient_on_five_batches() -> None:
    recorded = load_file(guard.VALUES / "gradients.safetensors")
    seen = set()
    for text in guard.expressions():
        for at, gradient in guard.gradients(text).items():
            expected = recorded[f"{text}|{at}"]
            torch.testing.assert_close(gradient, expected, rtol=1e-12, atol=1e-12 * scale(expected))
            seen.add(f"{text}|{at}")
    assert seen == recorded.keys()


def scale(gradient: torch.Tensor) -> float:
    """The largest entry, 0 if there is none."""
    return gradient.abs().max().item() if gradient.numel() else 0.0


@pytest.mark.parametrize("expression", guard.RUNS)
def test_three_steps_have_their_metrics(expression: str, tmp_path: Path) -> None:
    check_metrics(guard.trained(expression, tmp_path / "run"), committed(guard.METRICS)[expression], tolerance=1e-5)


def check_metrics(found: list[dict[str, float]], expected: list[dict[str, float]], tolerance: float) -> None:
    """Compares step by step, relative to the larger of the value and 1 (nats, shares, accuracies)."""
    renamed = guard.RENAMED["metrics"]
    named = [{renamed.get(name, name): value for name, value in line.items()} for line in expected]
    assert [line.keys() for line in found] == [line.keys() for line in named]
    for line, known in zip(found, named, strict=True):
        for name, value in known.items():
            assert line[name] == pytest.approx(value, rel=tolerance, abs=tolerance, nan_ok=True), (name, line["step"])


@pytest.mark.smoke
@pytest.mark.slow
@pytest.mark.parametrize("expression", ["dapo", "stapo(tau_p=0.6,q=0.2)"])
def test_two_processes_have_the_metrics_of_one(expression: str, tmp_path: Path) -> None:
    words = (f"objective={expression}", *guard.WORDS, *guard.RUNS[expression])
    launch([*TWO, "-m", "rlzoo", "train", "output=run", *words], tmp_path)
    check_metrics(guard.metrics_of(tmp_path / "run"), committed(guard.METRICS)[expression], tolerance=2e-4)


def test_a_table_of_results_has_its_verdicts(tmp_path: Path) -> None:
    check_rows(guard.leaderboard_verdicts(tmp_path), committed("leaderboard"))


def test_the_cells_of_the_suite_have_their_verdicts() -> None:
    check_rows(guard.suite_verdicts(), committed("suite"))


def check_rows(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    """Compares words exactly, numbers to 1e-9."""
    assert len(found) == len(expected)
    for row, known in zip(found, expected, strict=True):
        assert row.keys() == known.keys()
        for name, value in known.items():
            expected = pytest.approx(value, rel=1e-9, abs=1e-12, nan_ok=True) if isinstance(value, float) else value
            assert row[name] == expected, name
