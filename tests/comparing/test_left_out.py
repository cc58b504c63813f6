"""Rows that are left out of a grid: what no longer convinces is not trained, and what was trained is kept."""

from pathlib import Path

import pytest

from rlzoo.comparing.finished_runs import read_runs
from rlzoo.comparing.grid import Grid, read_grid
from rlzoo.errors import UserError
from tests.comparing.finished_runs import make_run

AS_MADE = ("train.steps=5", "evaluation.problems=12", "evaluation.samples=4", "evaluation.decodings=[1/1,0.7/0.9]")
"""The settings of runs that are made up."""


def grid(output: Path, *words: str) -> Grid:
    """A grid of such runs."""
    return read_grid([*words, *AS_MADE, f"output={output}"])[0]


def test_a_row_that_is_left_out_is_neither_trained_nor_shown_until_it_is_asked_for_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    swept = "stapo(tau_p=0.005,q=0.8)"
    grid(tmp_path, "grpo", "dapo", swept, "seeds=0,1").save()
    for name in ("grpo", "dapo"):
        make_run(tmp_path / f"{name}-0", name, 0, 0.5)
    found = grid(tmp_path, "grpo", "seeds=0,1")
    assert len(found.cells) == 6  # as the rows of earlier calls are of the grid, and how to be rid of them is said
    assert "dapo is trained as well, as an earlier call asked for it; leave_out='dapo' leaves it out" in caplog.text
    for _ in range(2):  # the same command again
        found = grid(tmp_path, "grpo", "seeds=0,1", f"leave_out=dapo,{swept}")
        assert [entry.asked for entry in found.objectives] == ["grpo"] and len(found.cells) == 2
        found.save()
    assert Grid.load(tmp_path) == found and (tmp_path / "dapo-0" / "metrics.jsonl").exists()
    runs, _, notes = read_runs([str(tmp_path)])
    assert [run.objective.expression for run in runs] == ["grpo"]
    assert f"dapo is left out, as was asked; {tmp_path}/dapo-SEED keep it." in notes
    again = grid(tmp_path, "dapo", "seeds=0,1")
    assert [entry.asked for entry in again.objectives] == ["grpo", "dapo"]
    assert [entry.asked for entry in again.left_out] == [swept]
    assert next(cell for cell in again.cells if cell.entry.asked == "dapo").folder.path == tmp_path / "dapo-0"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["grpo", "dapo", "leave_out=dapoo"], "leave_out=dapoo is no row of the grid in .*; did you mean dapo"),
        (["grpo", "leave_out=grpo"], "leave_out=grpo leaves no row of the grid in .*; keep one"),
        (["grpo", "dapo", "baseline=dapo", "leave_out=dapo"], "baseline=dapo is not among what is compared: grpo"),
    ],
)
def test_what_cannot_be_left_out_is_said(words: list[str], says: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=says):
        grid(tmp_path, *words)
