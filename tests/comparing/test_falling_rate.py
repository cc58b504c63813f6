"""The schedule that a comparison has by itself."""

from dataclasses import replace
from pathlib import Path

import pytest

from rlzoo.comparing.default_folder import default_folder
from rlzoo.comparing.grid import read_grid, settings_of
from rlzoo.config import load_config

STEPS = "train.steps=3"


def schedule(*words: str) -> str:
    grid, _ = read_grid(["grpo", *words])
    return str(load_config(grid.words).train.schedule)


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_rate_of_a_comparison_that_is_told_no_schedule_falls_to_0(tmp_path):
    recorded = tmp_path / "experiment.yaml"
    recorded.write_text("train:\n  schedule: constant\n", encoding="utf-8")
    assert schedule(STEPS) == "linear"
    assert schedule(STEPS, "train.schedule=cosine") == "cosine"
    assert schedule(str(recorded)) == "constant"


def test_a_sweep_of_schedules_trains_each_and_finds_its_grid_again():
    words = ["grpo", "seeds=0", STEPS, "train.schedule=[constant,cosine]"]
    grid, _ = read_grid(words)
    assert [cell.config.train.schedule for cell in grid.cells] == ["constant", "cosine"]
    grid.save()
    assert read_grid(words)[0].folder == grid.folder


def test_a_sweep_of_schedules_leaves_the_rows_of_the_grid_that_it_joins():
    read_grid(["grpo", "seeds=0", STEPS])[0].save()
    grid, _ = read_grid(["grpo", "seeds=0", STEPS, "train.schedule=[constant,cosine]"])
    assert [cell.config.train.schedule for cell in grid.cells] == ["linear", "constant", "cosine"]


def test_a_grid_of_an_earlier_version_is_found_without_its_folder_s_name():
    constant, _ = read_grid(["grpo", "seeds=0", STEPS, "train.schedule=constant"])
    replace(constant, words=(STEPS,), folder=Path("runs/compare-train.steps=3")).save()
    grid, _ = read_grid(["grpo", "seeds=0", STEPS])
    assert grid.folder == Path("runs/compare-train.steps=3")
    assert [cell.config.train.schedule for cell in grid.cells] == ["constant"]


def test_a_grid_of_a_constant_rate_goes_on_with_it():
    grid, _ = read_grid(["grpo", STEPS, "train.schedule=constant", "output=grid"])
    grid.save()
    assert schedule(STEPS, "output=grid") == "constant"
    assert schedule(STEPS, "output=another") == "linear"


@pytest.mark.parametrize("given", ["constant", "cosine", "linear"])
def test_the_settings_of_a_run_are_a_comparison_with_its_schedule(given):
    config = load_config([STEPS, f"train.schedule={given}"])
    assert schedule(*settings_of(config)) == given


def test_a_folder_is_named_after_a_schedule_that_a_comparison_does_not_have_by_itself():
    folders = {given: default_folder([STEPS, f"train.schedule={given}"]).name for given in ("linear", "constant")}
    assert folders == {"linear": f"compare-{STEPS}", "constant": f"compare-{STEPS}-train.schedule=constant"}
