"""The schedule that a comparison has by itself."""

from pathlib import Path

import pytest

from rlzoo.comparing.default_folder import default_folder
from rlzoo.comparing.grid import read_grid, settings_of
from rlzoo.comparing.grid_words import read_grid_words, with_schedule
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


def test_a_sweep_of_schedules_is_left_alone():
    words = read_grid_words(["grpo", "train.schedule=[constant,cosine]"])
    assert with_schedule(words.settings, words.swept) == ()


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
