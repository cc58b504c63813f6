"""Looks by hand are counted in the grid's folder, so that adding seeds until something shows does not pay."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import rlzoo
from rlzoo.comparing import leaderboard
from rlzoo.comparing.finished_runs import read_runs
from rlzoo.comparing.grid import read_grid
from rlzoo.comparing.leaderboard import ANALYSES, analysed_seeds, count_analysis
from rlzoo.errors import UserError
from rlzoo.files import write_json
from tests.comparing.finished_runs import AS_MADE, make_run


def with_seeds(folder: Path, count: int, objectives: tuple[str, ...] = ("grpo", "dapo")) -> str:
    """A grid whose rows have so many seeds, all done."""
    seeds = ",".join(map(str, range(count)))
    grid, _ = read_grid([*objectives, f"seeds={seeds}", *AS_MADE, f"output={folder}"])
    grid.save()
    for cell in grid.cells:
        if not cell.folder.path.exists():
            make_run(cell.folder.path, cell.entry.expression, cell.seed)
    return str(folder)


def looked(folder: str) -> str:
    """The page after a look at it."""
    rlzoo.leaderboard(folder, progress=False)
    return (Path(folder) / "leaderboard.md").read_text()


@pytest.mark.slow
def test_a_look_with_other_seeds_corrects_the_verdicts_and_the_same_look_again_does_not(tmp_path: Path) -> None:
    assert "analyses" not in looked(with_seeds(tmp_path, 2)) and "analyses" not in looked(str(tmp_path))
    assert "corrected for 2 analyses" in looked(with_seeds(tmp_path, 3))
    assert "corrected for 2 analyses" in looked(str(tmp_path))
    rlzoo.leaderboard(tmp_path / "answers.parquet", output=tmp_path / "again", progress=False)
    assert "corrected for 2 analyses" in (tmp_path / "again" / "leaderboard.md").read_text()
    runs, _, _ = read_runs([with_seeds(tmp_path, 3, ("grpo", "dapo", "stapo"))])
    assert count_analysis(tmp_path, analysed_seeds(runs, runs)) == 2


@pytest.mark.slow
def test_seeds_that_another_folder_adds_are_another_analysis(tmp_path: Path) -> None:
    grids = [with_seeds(tmp_path / "first", 2), str(tmp_path / "second")]
    looked(grids[0])
    for seed in (2, 3):
        for objective in ("grpo", "dapo"):
            make_run(tmp_path / "second" / f"{objective}-{seed}", objective, seed)
    rlzoo.leaderboard(*grids, output=tmp_path / "out", progress=False)
    assert "corrected for 2 analyses" in (tmp_path / "out" / "leaderboard.md").read_text()


def test_planned_analyses_are_not_counted_and_further_ones_are(tmp_path: Path) -> None:
    counts = [count_analysis(tmp_path, {"row": list(range(seeds))}, planned=(3, 5)) for seeds in (3, 5, 6, 3)]
    assert counts == [0, 0, 1, 1] and count_analysis(tmp_path, {"row": [0, 1, 7]}, planned=(3, 5)) == 2


@pytest.mark.slow
def test_analyses_of_runs_outside_of_a_grid_are_counted_where_the_leaderboard_is(tmp_path: Path) -> None:
    for seed in range(3):
        for objective in ("grpo", "dapo"):
            make_run(tmp_path / f"{objective}-{seed}", objective, seed)
    for count, says in ((2, False), (3, True)):
        runs = [tmp_path / f"{objective}-{seed}" for objective in ("grpo", "dapo") for seed in range(count)]
        rlzoo.leaderboard(*runs, output=tmp_path / "out", progress=False)
        assert ("corrected for 2 analyses" in (tmp_path / "out" / "leaderboard.md").read_text()) == says
    other = make_run(tmp_path / "stapo-7", "stapo", 7, 0.5, "train.learning_rate=3e-6")
    with pytest.raises(UserError, match="cannot be compared"):
        rlzoo.leaderboard(*runs, other, output=tmp_path / "new", progress=False)
    assert not (tmp_path / "new").exists(), "what is refused is no analysis"


@pytest.mark.parametrize(
    "damaged", ["[3", "[3]", '{"a": 3}', '{"a": [["x"]]}', '{"a": [[Infinity]]}', '{"a": [[null]]}']
)
def test_a_count_that_is_damaged_is_one_line(damaged: str, tmp_path: Path) -> None:
    (tmp_path / ANALYSES).write_text(damaged)
    with pytest.raises(UserError, match=r"looks.json is damaged; remove it"):
        count_analysis(tmp_path, {})


def test_counts_at_the_same_time_lose_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(path: Path, value: object) -> None:
        time.sleep(0.02)
        write_json(path, value)

    monkeypatch.setattr(leaderboard, "write_json", late)
    with ThreadPoolExecutor() as threads:
        list(threads.map(lambda row: count_analysis(tmp_path / "new", {row: [0, 1]}), "abcd"))
    assert sorted(json.loads((tmp_path / "new" / ANALYSES).read_text())) == list("abcd")
