"""Sweeps: a list where one value belongs makes rows, cells and a curve."""

from pathlib import Path

import pytest

from objectives import parse
from rlzoo.comparing.finished_runs import read_runs
from rlzoo.comparing.grid import Grid, read_grid
from rlzoo.comparing.leaderboard import make_leaderboard
from rlzoo.comparing.sweep import Sweep, variants
from rlzoo.config import load_config
from rlzoo.errors import UserError
from tests.comparing.finished_runs import make_run
from tests.conftest import error_of


def grid(folder: Path, *words: str) -> Grid:
    """What a command line asks for."""
    return read_grid([*words, f"output={folder}"])[0]


def test_every_value_of_a_key_and_of_a_parameter_is_a_row(tmp_path: Path) -> None:
    words = ("grpo", "s2t(tau_p=[0.001,0.002])", "train.learning_rate=[1e-5,1e-4]", "seeds=0,1")
    found = grid(tmp_path, *words)
    cells = {(cell.entry.expression, cell.config.train.learning_rate, cell.seed) for cell in found.cells}
    expressions = {str(parse(it)) for it in ("grpo", "s2t(tau_p=0.001)", "s2t(tau_p=0.002)")}
    assert cells == {(it, rate, seed) for it in expressions for rate in (1e-5, 1e-4) for seed in (0, 1)}
    assert len({cell.folder.path for cell in found.cells}) == len(found.cells) == 12
    assert len({cell.row for cell in found.cells}) == 6
    assert all(load_config(cell.words) == cell.config for cell in found.cells)
    found.save()
    assert Grid.load(tmp_path) == found == grid(tmp_path, *words)


def test_several_lists_are_combined_and_a_value_counts_once() -> None:
    swept = [text for text, _ in variants("stapo(tau_p=[0.001,0.002,0.001],q=[0.5,0.8])", ())]
    assert swept == [f"stapo(tau_p={p},q={q})" for p in ("0.001", "0.002") for q in ("0.5", "0.8")]
    ((text, sweep),) = variants("grpo", ())
    assert text == "grpo" and not sweep.values and not sweep.words


def test_a_number_that_is_written_in_two_ways_is_one_row(tmp_path: Path) -> None:
    found = grid(tmp_path, "grpo", "train.learning_rate=[1e-5,0.00001,1e-4]", "train.weight_decay=[0,0.0]", "seeds=0")
    assert [cell.entry.sweep.words for cell in found.cells] == [
        (f"train.learning_rate={rate}", "train.weight_decay=0") for rate in ("1e-5", "1e-4")
    ]
    found.save()
    again = grid(tmp_path, "grpo", "train.learning_rate=[0.00001]", "train.weight_decay=[0.0]", "seeds=0")
    assert again.objectives == found.objectives
    inside = grid(tmp_path / "inside", "s2t(tau_p=[0.001,1e-3,0.002])", "seeds=0")
    assert len(inside.cells) == 2


def test_texts_that_look_like_one_number_are_two_rows() -> None:
    texts = [Sweep("grpo", (), (f"task.name={name}",)) for name in ("1", "01")]
    assert len({sweep.meant for sweep in texts}) == 2


def test_a_list_for_a_key_that_takes_one_is_no_sweep(tmp_path: Path) -> None:
    found = grid(tmp_path, "grpo", "evaluation.decodings=[1/1,0.7/0.9]", "train.betas=[0.8,0.9]", "seeds=0")
    assert len(found.cells) == 1 and found.cells[0].config.evaluation.decodings == ["1/1", "0.7/0.9"]


@pytest.mark.slow
def test_a_sweep_has_a_row_and_a_command_for_each_value(tmp_path: Path) -> None:
    words = ["train.steps=5", "evaluation.problems=12", "evaluation.samples=4", "evaluation.decodings=[1/1,0.7/0.9]"]
    found = grid(tmp_path, "grpo", "dapo", "train.learning_rate=[1e-5,1e-4]", "seeds=0,1", *words)
    found.save()
    for cell in found.cells:
        rate = cell.config.train.learning_rate
        accuracy = 0.4 if rate == 1e-5 else 0.8
        make_run(cell.folder.path, cell.entry.expression, cell.seed, accuracy, f"train.learning_rate={rate}")
    runs, baseline, _ = read_runs([str(tmp_path)])
    with pytest.raises(UserError, match="is what several rows are called; give baseline"):
        make_leaderboard(runs, baseline)
    board = make_leaderboard(runs, "grpo train.learning_rate=1e-4")
    assert {str(row.name) for row in board.rows} == {
        f"{name} train.learning_rate={rate}" for name in ("grpo", "dapo") for rate in ("1e-5", "1e-4")
    }
    assert str(board.baseline.name) == "grpo train.learning_rate=1e-4"
    assert board.setting["learning rate"] == "1e-5, 1e-4"
    assert board.setting["schedule"] == "linear"
    for row in board.rows:
        assert f"train.learning_rate={float(row.sweep.values[0][1])}" in board.trainings[row.identity].command


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("train.learning_rate=[1e-5,]", "has an empty value"),
        ("train.steps=[5,0]", "train.steps=0 must be at least 1"),
        ("train.steps=[5,many]", "train.steps=many"),
        ("s2t(tau_p=[1,x])", "x"),
    ],
)
def test_a_mistake_in_a_sweep_is_one_clear_line(
    word: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert says in error_of(capsys, "compare", "grpo", word)


def test_a_long_expression_has_a_folder_for_each_value(tmp_path: Path) -> None:
    long = "stapo(tau_p=0.005,q=0.8)+clip_higher(high=0.31)+dual_clip(cap=4)+entropy_bonus(coefficient=0.003)"
    found = grid(tmp_path, long, "train.learning_rate=[1e-5,1e-4,1e-3]", "seeds=0")
    assert len({cell.folder.path for cell in found.cells}) == len(found.cells) == 3
    found.save()
    assert Grid.load(tmp_path) == found


def test_a_run_with_a_setting_of_its_own_does_not_join_a_sweep_of_it(tmp_path: Path) -> None:
    words = ["train.steps=5", "evaluation.problems=12", "evaluation.samples=4", "evaluation.decodings=[1/1,0.7/0.9]"]
    found = grid(tmp_path / "grid", "grpo", "train.learning_rate=[1e-5,1e-4]", "seeds=0", *words)
    found.save()
    for cell in found.cells:
        rate = f"train.learning_rate={cell.config.train.learning_rate}"
        make_run(cell.folder.path, cell.entry.expression, cell.seed, 0.5, rate)
    other = make_run(tmp_path / "other", "grpo", 1, 0.5, "train.learning_rate=3e-6")
    runs, baseline, _ = read_runs([str(found.folder), str(other)])
    with pytest.raises(UserError, match=r"cannot be compared: train\.learning_rate is 1e-05 in one and 3e-06"):
        make_leaderboard(runs, baseline)
