"""Rows that are left out of a grid: what no longer convinces is not trained, and what was trained is kept."""

import json
from dataclasses import replace
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


@pytest.mark.slow
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


def test_a_row_whose_meaning_has_changed_since_it_was_left_out_is_trained_anew_when_it_is_asked_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    grid(tmp_path, "grpo", "dapo", "seeds=0").save()
    make_run(tmp_path / "dapo-0", "dapo", 0, 0.5)
    found = grid(tmp_path, "grpo", "seeds=0", "leave_out=dapo")
    replace(found, left_out=tuple(replace(entry, key="of an earlier version") for entry in found.left_out)).save()
    (again,) = (cell for cell in grid(tmp_path, "dapo", "seeds=0").cells if cell.entry.asked == "dapo")
    assert again.folder.path.name.startswith("dapo-") and again.folder.path != tmp_path / "dapo-0"
    assert "dapo is trained anew" in caplog.text


def test_seeds_that_were_added_to_a_row_come_back_with_it(tmp_path: Path) -> None:
    replace(grid(tmp_path, "grpo", "dapo", "seeds=0"), further=(("dapo", 1), ("grpo", 1))).save()
    found = grid(tmp_path, "grpo", "seeds=0", "leave_out=dapo")
    assert [(cell.entry.name, cell.seed) for cell in found.cells] == [("grpo", 0), ("grpo", 1)]
    found.save()
    assert grid(tmp_path, "dapo", "seeds=0").seeds_of("dapo") == [0, 1]


@pytest.mark.parametrize("place", ["objectives", "left_out", "earlier"])
def test_code_that_a_grid_alone_names_is_imported_from_none_of_its_lists(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "of_a_stranger.py").write_text("raise SystemExit('it was imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    grid(tmp_path / "grid", "grpo", "dapo", "seeds=0").save()
    file = tmp_path / "grid" / "grid.json"
    values = json.loads(file.read_text())
    entry = {**values["objectives"].pop(), "expression": "dapo+of_a_stranger:x"}
    values[place].append(entry)
    file.write_text(json.dumps(values))
    with pytest.raises(UserError, match=r"names code of its own.* and is not obeyed"):
        grid(tmp_path / "grid", "grpo", "dapo", "seeds=0")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["grpo", "dapo", "leave_out=dapoo"], "leave_out=dapoo is no row of the grid in .*; did you mean dapo"),
        (["grpo", "leave_out=grpo"], "leave_out=grpo leaves no row of the grid in .*; keep one"),
        (
            ["grpo", "dapo", "baseline=dapo", "leave_out=dapo"],
            r"dapo is the baseline of the grid in .*; there are grpo",
        ),
    ],
)
def test_what_cannot_be_left_out_is_said(words: list[str], says: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=says):
        grid(tmp_path, *words)
