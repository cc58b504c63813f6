"""Recorded files of a stranger whose `code` is anything: one line, or passed over; never a traceback."""

import json
from pathlib import Path

import pytest

from rlzoo.comparing.grid import Grid, read_grid
from rlzoo.errors import UserError
from rlzoo.experiment.identity import read_objective
from tests.comparing.finished_runs import make_run
from tests.conftest import error_of

DEEP = "[" * 100_000 + "]" * 100_000
ODD = ["5", "[1]", '"text"', '{"parts": 5, "task": {}, "meaning": ""}', '{"parts": {}}', DEEP]


@pytest.mark.parametrize("code", ODD, ids=lambda code: code[:20])
def test_an_objective_json_with_odd_code_is_one_line(
    code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run", "grpo", 0, 0.5)
    recorded = {**json.loads((run / "objective.json").read_text()), "code": "CODE"}
    (run / "objective.json").write_text(json.dumps(recorded).replace('"CODE"', code))
    with pytest.raises(UserError, match=r"objective\.json is not readable"):
        read_objective(run)
    assert "objective.json is not readable" in error_of(capsys, "leaderboard", run, f"output={tmp_path / 'board'}")


@pytest.mark.parametrize("code", ODD, ids=lambda code: code[:20])
def test_a_grid_json_with_odd_code_is_one_line(code: str, tmp_path: Path) -> None:
    found, _ = read_grid(["grpo", "seeds=0", f"output={tmp_path}"])
    found.save()
    recorded = json.loads((tmp_path / "grid.json").read_text())
    recorded["objectives"][0]["code"] = "CODE"
    (tmp_path / "grid.json").write_text(json.dumps(recorded).replace('"CODE"', code))
    with pytest.raises(UserError, match=r"grid\.json is not readable"):
        Grid.load(tmp_path)
