"""`seeds=auto(up_to=10)`: seeds go where they decide something, and looking often errs no more often."""

import runpy
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import rlzoo
from rlzoo.comparing import compare as module
from rlzoo.comparing.compare import compare
from rlzoo.comparing.finished_runs import read_runs
from rlzoo.comparing.grid import Grid, read_grid
from rlzoo.comparing.leaderboard import make_leaderboard
from rlzoo.errors import UserError
from rlzoo.report.grid_view import GridView
from rlzoo.statistics.family import Family
from rlzoo.statistics.interim_analyses import looks, next_look, wants_seeds
from rlzoo.statistics.intervals import Estimate
from rlzoo.statistics.verdicts import Difference, Finding, Measured, Verdict
from tests.comparing import finished_runs
from tests.comparing.finished_runs import DECODINGS, make_run
from tests.conftest import error_of

COVERAGE = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "coverage" / "coverage.py"))
ACCURACIES = {"grpo": 0.4, "dapo": 0.9, "stapo": 0.47}
WORDS = [*ACCURACIES, "train.steps=5", "evaluation.problems=60", "evaluation.samples=4"]
WORDS += ["evaluation.decodings=[1/1,0.7/0.9]", "seeds=auto(up_to=7)"]


class Trained:
    """In place of the processes that train: runs made up from nothing, until it is killed."""

    def __init__(self, runs: list[module.CellRun], *_: object) -> None:
        self.cells = [run.cell for run in runs if not run.cell.folder.path.exists()]

    rounds_left = 100

    def run(self) -> list[module.RunFailure]:
        """All cells that are not there yet."""
        type(self).rounds_left -= 1
        if self.rounds_left < 0:
            raise KeyboardInterrupt
        for cell in self.cells:
            wobble = 0.03 * np.random.default_rng([cell.seed, len(cell.entry.name)]).normal()
            accuracy = ACCURACIES[cell.entry.name] + wobble * (cell.entry.name == "stapo")
            make_run(cell.folder.path, cell.entry.name, cell.seed, accuracy, "evaluation.problems=60")
        return []


@pytest.fixture
def train(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs take no time."""
    monkeypatch.setattr(module, "_Scheduler", Trained)
    monkeypatch.setattr(Trained, "rounds_left", 100)
    monkeypatch.setattr(finished_runs, "PROBLEMS", 60)


def finished(folder: Path) -> Grid:
    """The grid of a command line, run to its end."""
    grid, jobs = read_grid([*WORDS, f"output={folder}"])
    assert compare(grid, jobs, GridView(Console(quiet=True))) == []
    return Grid.load(folder)


@pytest.mark.slow
def test_rows_that_are_decided_or_hopeless_get_no_more_seeds_and_the_baseline_keeps_up(
    tmp_path: Path, train: None
) -> None:
    grid = finished(tmp_path)
    seeds = Counter(str(cell.row) for cell in grid.cells)
    assert seeds["dapo"] == 3 and 3 < seeds["stapo"] <= 7
    assert seeds["grpo"] == max(seeds.values())
    for row in seeds:
        own = [cell.seed for cell in grid.cells if str(cell.row) == row]
        assert sorted(own) == list(range(len(own)))


@pytest.mark.exhaustive
def test_a_grid_that_was_killed_at_any_look_goes_on_where_it_was(
    tmp_path: Path, train: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = finished(tmp_path / "whole")
    for rounds in (0, 1):
        monkeypatch.setattr(Trained, "rounds_left", rounds)
        with pytest.raises(KeyboardInterrupt):
            finished(tmp_path / "killed")
    monkeypatch.setattr(Trained, "rounds_left", 100)
    assert replace(finished(tmp_path / "killed"), folder=whole.folder) == whole


@pytest.mark.slow
def test_every_page_of_such_a_grid_is_corrected_for_its_looks(tmp_path: Path, train: None) -> None:
    grid = finished(tmp_path / "grid")
    assert looks(grid.up_to) == (3, 5, 7)
    for number, words in enumerate(([tmp_path / "grid"], [cell.folder.path for cell in grid.cells])):
        rlzoo.leaderboard(*words, output=tmp_path / f"{number}", progress=False)
        assert "corrected for 3 analyses" in (tmp_path / f"{number}" / "leaderboard.md").read_text()
    runs, baseline, notes = read_runs([str(tmp_path / "grid")])
    once, often = (make_leaderboard(runs, baseline, notes=notes, looks=count).rows for count in (1, 3))
    for row, corrected in zip(once, often, strict=True):
        if found := row.results[DECODINGS[0]].difference:
            strict = corrected.results[DECODINGS[0]].difference
            assert strict and strict.p_value == pytest.approx(min(1.0, 3 * found.p_value))
            assert strict.low < found.low and strict.high > found.high and strict.detectable > found.detectable


def test_a_row_like_the_baseline_stays_so_when_the_baseline_has_more_seeds(tmp_path: Path) -> None:
    folders = [make_run(tmp_path / f"grpo-{seed}", "grpo", seed) for seed in range(5)]
    folders += [make_run(tmp_path / f"dapo-{seed}", "dapo", seed) for seed in range(3)]
    runs, _, _ = read_runs([str(it) for it in folders])
    rows = make_leaderboard(runs).rows
    assert {row.results[DECODINGS[0]].average.verdict.finding for row in rows} == {
        Finding.BASELINE,
        Finding.SAME_RESPONSES,
    }


def test_looks_are_few_and_settled_by_the_largest_number() -> None:
    assert looks(10) == (3, 5, 7, 10) and looks(5) == (3, 5) and looks(0) == (3,)
    assert [next_look(seeds, 10) for seeds in (3, 4, 7, 10, 12)] == [5, 5, 10, 10, 12]
    for tests in (1, 7, 14):
        family = Family(tests, looks=4)
        assert family.adjusted([family.level] + [1.0] * (tests - 1))[0] == pytest.approx(0.05)
        assert Family(tests).level / family.level == pytest.approx(4, rel=0.03)


def test_seeds_go_where_they_may_decide() -> None:
    assert wants_seeds(False, False, 30, 10) and wants_seeds(False, True, 0, 10)
    assert not wants_seeds(True, False, 30, 10)
    assert not wants_seeds(False, False, 0, 10) and not wants_seeds(False, False, 101, 10)


@pytest.mark.parametrize(
    ("finding", "points", "equivalence", "wants"),
    [
        (Finding.NOT_DISTINGUISHABLE, 0.5, 0, False),
        (Finding.NOT_DISTINGUISHABLE, 0.5, 2, True),
        (Finding.NOT_DISTINGUISHABLE, -3.0, 2, False),
        (Finding.SAME, 0.5, 2, False),
        (Finding.SAME_RESPONSES, 0.0, 2, False),
    ],
)
def test_a_row_that_may_be_the_same_gets_seeds_until_it_is(
    finding: Finding, points: float, equivalence: float, wants: bool
) -> None:
    mean, alone = points / 100, Estimate(points / 100, -1.0, 1.0)
    hopeless = Difference(mean, -1.0, 1.0, alone, 1.0, 1.0, 1.0, 0.1, seeds_needed=0, seeds_range=(0, 0))
    measured = Measured(alone, (mean,) * 3, hopeless, Verdict(finding))
    assert module._wants_seeds(measured, 10, equivalence) is wants


@pytest.mark.slow
def test_pages_to_which_seeds_are_added_have_a_false_verdict_in_at_most_5_percent() -> None:
    generator, pages = np.random.default_rng(31), 60
    scenario = replace(COVERAGE["SEQUENTIAL"]["seeds=auto, +5.4"], problems=60)
    found = np.array([COVERAGE["sequential_page"](generator, scenario) for _ in range(pages)])
    assert found[:, 1].mean() <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / pages)


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("seeds=auto(10)", "is written seeds=auto or seeds=auto(up_to=10)"),
        ("seeds=automatic", "is written seeds=auto or seeds=auto(up_to=10)"),
        ("seeds=auto(up_to=3)", "up_to must be more than the 3 seeds"),
    ],
)
def test_a_mistake_is_one_clear_line(
    word: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert says in error_of(capsys, "compare", "grpo", "dapo", word)


def test_the_largest_number_does_not_change_on_the_way(tmp_path: Path) -> None:
    grid, _ = read_grid(["grpo", "seeds=auto(up_to=7)", f"output={tmp_path}"])
    grid.save()
    assert read_grid(["grpo", "dapo", f"output={tmp_path}"])[0].up_to == 7
    with pytest.raises(UserError, match=r"seeds=auto\(up_to=9\), but the grid"):
        read_grid(["grpo", "seeds=auto(up_to=9)", f"output={tmp_path}"])
