"""The benchmark of what objectives cost takes the step that training takes."""

import pytest

from benchmarks.speed import objective_overhead
from objectives import parse


def test_what_objectives_cost_is_measured_on_a_real_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(objective_overhead, "REPETITIONS", 1)
    monkeypatch.setattr(objective_overhead, "recipes", lambda: [parse("lopti"), parse("gigpo")])
    objective_overhead.main(["rollout.prompts_per_step=2", "rollout.responses_per_prompt=4"])
    shown = capsys.readouterr().out.splitlines()
    rows = [line.split(" | ") for line in shown if line.startswith(("| lopti", "| gigpo"))]
    assert len(rows) == 2 and all(float(row[1]) > 0 for row in rows)
