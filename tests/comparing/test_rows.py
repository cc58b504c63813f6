"""Rows of a grid: an objective with settings of its own; the schedule and folder that a grid has by itself."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from objectives import parse
from rlzoo.comparing.finished_runs import read_runs
from rlzoo.comparing.grid import Grid, read_grid
from rlzoo.comparing.grid_words import RowWords, default_folder, meant, read_grid_words, settings_of
from rlzoo.comparing.leaderboard import make_leaderboard
from rlzoo.config import load_config
from rlzoo.errors import UserError
from rlzoo.experiment.check import acting
from tests.comparing.finished_runs import AS_MADE, make_run
from tests.conftest import error_of

RATES = ("grpo train.learning_rate=1e-5", "grpo train.learning_rate=1e-4")
STEPS = "train.steps=3"
LONG = ("rollout.max_response_tokens=64", "train.learning_rate=2e-5", "evaluation.problems=32", "train.steps=3")


def grid(folder: Path, *words: str) -> Grid:
    """What a command line asks for."""
    return read_grid([*words, f"output={folder}"])[0]


def made(folder: Path, *words: str) -> Grid:
    """A grid whose runs are done, the better the higher their rate."""
    found = grid(folder, *words, *AS_MADE)
    found.save()
    for cell in found.cells:
        rate = cell.config.train.learning_rate
        make_run(cell.folder.path, cell.entry.expression, cell.seed, 0.4 if rate < 5e-5 else 0.8, *cell.entry.settings)
    return found


# ---- settings of a row -----------------------------------------------------------------------------------------------


def test_a_row_has_settings_of_its_own_and_a_folder_for_each_seed(tmp_path: Path) -> None:
    long = "stapo(tau_p=0.005,q=0.8)+clip_higher(high=0.31)+dual_clip(cap=4)+entropy_bonus(coefficient=0.003)"
    words = (*RATES, "s2t(tau_p=0.002)", long, f"{long} train.learning_rate=1e-4", "seeds=0,1")
    found = grid(tmp_path, *words)
    cells = {(cell.entry.expression, cell.config.train.learning_rate, cell.seed) for cell in found.cells}
    default = load_config([]).train.learning_rate
    expected = [("grpo", 1e-5), ("grpo", 1e-4), ("s2t(tau_p=0.002)", default), (long, default), (long, 1e-4)]
    assert cells == {(str(parse(text)), rate, seed) for text, rate in expected for seed in (0, 1)}
    assert len({cell.folder.path for cell in found.cells}) == len({cell.row for cell in found.cells}) * 2 == 10
    assert all(load_config(cell.words) == cell.config for cell in found.cells)
    found.save()
    assert Grid.load(tmp_path) == found == grid(tmp_path, *words)


def test_spaces_inside_brackets_are_of_the_expression() -> None:
    row = RowWords.read("stapo(tau_p=0.1, q=0.5) + clip_higher train.betas=[0.8, 0.9] train.steps=3")
    assert row == RowWords("stapo(tau_p=0.1, q=0.5) + clip_higher", ("train.betas=[0.8, 0.9]", "train.steps=3"))


def test_a_number_that_is_written_in_two_ways_is_one_row_and_a_text_is_two(tmp_path: Path) -> None:
    words = ("grpo train.learning_rate=1e-5", "grpo train.learning_rate=0.00001", "seeds=0")
    found = grid(tmp_path, *words)
    assert [cell.entry.settings for cell in found.cells] == [("train.learning_rate=1e-5",)]
    assert len({meant([f"task.name={name}"]) for name in ("1", "01")}) == 2


@pytest.mark.parametrize("setting", ["rollout.engine_args.seed=3", "task.options={digits: 3}"])
def test_a_row_that_alone_has_an_option_is_compared(setting: str, tmp_path: Path) -> None:
    made(tmp_path, "grpo", f"grpo {setting}", "seeds=0")
    runs, baseline, _ = read_runs([str(tmp_path)])
    board = make_leaderboard(runs, baseline)
    key, _, value = setting.partition("=")
    assert len(board.rows) == 2 and board.setting[f"{key} (by row)"].startswith(f"{value}; others ")


@pytest.mark.slow
def test_rows_of_one_objective_have_names_results_and_commands_of_their_own(tmp_path: Path) -> None:
    made(tmp_path, *RATES, "dapo", "seeds=0,1")
    runs, baseline, _ = read_runs([str(tmp_path)])
    with pytest.raises(
        UserError, match=r"grpo is the name of several rows; write baseline=.grpo train.learning_rate=1e-5., "
    ):
        make_leaderboard(runs, "grpo")
    assert str(make_leaderboard(runs, baseline).baseline.name) == RATES[0], "the first"
    board = make_leaderboard(runs, RATES[1])
    assert [str(row.name) for row in board.rows] == [RATES[1], "dapo", RATES[0]]
    assert str(board.baseline.name) == RATES[1]
    assert board.setting["learning rate"] == "1e-5, 1e-4; others 0.00015" and board.setting["schedule"] == "linear"
    for row in (board.rows[0], board.rows[2]):
        assert f"'{row.name}'" in board.trainings[row.identity].command


def test_a_run_with_a_setting_that_its_row_does_not_have_joins_no_such_row(tmp_path: Path) -> None:
    found = made(tmp_path / "grid", *RATES, "dapo", "seeds=0")
    other = make_run(tmp_path / "other", "grpo", 1, 0.5, "train.learning_rate=3e-6")
    runs, baseline, _ = read_runs([str(found.folder), str(other)])
    with pytest.raises(UserError, match=r"cannot be compared: train\.learning_rate is 0\.00015 in one and 3e-06"):
        make_leaderboard(runs, baseline)


@pytest.mark.parametrize(
    ("word", "says"),
    [
        (
            "train.learning_rate=[1e-5,1e-4]",
            "name a row for each: 'grpo train.learning_rate=1e-5' 'grpo train.learning",
        ),
        ("s2t(tau_p=[1,2])", "a row has one value of tau_p; name a row for each: 's2t(tau_p=1)' 's2t(tau_p=2)'"),
        ("grpo train.steps=0", "train.steps=0 must be at least 1"),
        ("grpo seed=3", "a row cannot have it of its own"),
        ("grpo evaluation.samples=16", "a row cannot have it of its own"),
        ("grpo task.instruction=Think.", "a row cannot have it of its own"),
        ("grpo task.columns.question=q", "a row cannot have it of its own"),
        ("resume=true", "the same command goes on; leave it out"),
        ("leave_out=dapo", "compare the other rows in another output="),
        ("baseline=grpo train.steps=7", "baseline=grpo train.steps=7 is not among what is compared"),
    ],
)
def test_a_mistake_in_a_row_is_one_line_that_says_what_to_write(
    word: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert says in error_of(capsys, "compare", "grpo", word)


# ---- grids of other calls and versions -------------------------------------------------------------------------------


def test_a_grid_goes_on_with_a_key_that_a_new_one_is_refused_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text('{"question": "1+1=", "answer": "2"}\n' * 3)
    words = ("grpo", "seeds=0", "task.name=rows.jsonl", f"output={tmp_path}/old", "rollout.max_response_tokens=4")
    idle = ("task.split=dev", "model.revision=main")
    for word in idle:
        assert word.partition("=")[0] in error_of(capsys, "compare", *words, word)
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "grid.json").write_text("{}")
    assert {*idle} <= {*read_grid_words([*words, *idle]).settings}


def test_a_grid_with_lists_of_values_and_rows_that_were_left_out_is_read(tmp_path: Path) -> None:
    """As versions before settings of rows wrote it."""
    made(tmp_path, *RATES, "seeds=0")
    file = tmp_path / "grid.json"
    saved = json.loads(file.read_text())
    for entry in saved["objectives"]:
        words = entry.pop("settings")
        values = [word.split("=") for word in words]
        entry["sweep"] = {"family": "grpo", "values": values, "words": words}
    file.write_text(json.dumps({**saved, "left_out": [{"asked": "dapo"}]}))
    runs, baseline, _ = read_runs([str(tmp_path)])
    assert {str(row.name) for row in make_leaderboard(runs, baseline).rows} == set(RATES)
    assert grid(tmp_path, *RATES, "seeds=0", *AS_MADE).objectives == Grid.load(tmp_path).objectives


def test_a_row_of_an_earlier_call_is_trained_as_well_and_that_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    grid(tmp_path, "grpo", "dapo", "seeds=0").save()
    assert [str(cell.row) for cell in grid(tmp_path, "grpo", "seeds=0").cells] == ["grpo", "dapo"]
    assert "dapo is trained as well: an earlier call asked for it" in caplog.text


@pytest.mark.parametrize("place", ["objectives", "earlier"])
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
    with pytest.raises(UserError, match=r"names code of its own.* and was not executed"):
        grid(tmp_path / "grid", "grpo", "dapo", "seeds=0")


# ---- schedule and folder ---------------------------------------------------------------------------------------------


def schedule(*words: str) -> str:
    found, _ = read_grid(["grpo", *words])
    return str(load_config(found.words).train.schedule)


def test_the_rate_of_a_comparison_that_names_no_schedule_falls_to_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    recorded = tmp_path / "experiment.yaml"
    recorded.write_text("train:\n  schedule: constant\n", encoding="utf-8")
    assert schedule(STEPS) == "linear"
    assert schedule(STEPS, "train.schedule=cosine") == "cosine"
    assert schedule(str(recorded)) == "constant"
    for given in ("constant", "cosine", "linear"):
        assert schedule(*settings_of(load_config([STEPS, f"train.schedule={given}"]))) == given


def test_a_grid_of_another_schedule_in_the_usual_folder_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As versions whose comparisons kept the rate constant left it."""
    monkeypatch.chdir(tmp_path)
    constant, _ = read_grid(["grpo", "seeds=0", STEPS, "train.schedule=constant"])
    replace(constant, words=(STEPS,), folder=Path(f"runs/compare-{STEPS}")).save()
    assert read_grid(["grpo", "seeds=0", STEPS])[0].folder != Path(f"runs/compare-{STEPS}")


def test_the_default_has_updates_in_which_a_clip_can_act_and_an_older_grid_keeps_its_one(tmp_path: Path) -> None:
    models: tuple[tuple[str, ...], ...] = ((), ("model.name=mine", "task.name=mine.jsonl"))
    for words in models:
        config = load_config([*words, "objective=grpo+clip_higher"])
        assert acting(config, parse(config.objective)) == parse("grpo+clip_higher")
    found = grid(tmp_path, "grpo", "seeds=0", STEPS)
    assert "train.minibatches_per_step=2" in found.words
    replace(found, words=(STEPS,)).save()
    assert Grid.load(tmp_path).cells[0].config.train.minibatches_per_step == 1
    make_run(found.cells[0].folder.path, "grpo", 0, 0.5, "train.minibatches_per_step=1")
    with pytest.raises(UserError, match=r"train\.minibatches_per_step=2, but the run in"):
        grid(tmp_path, "grpo", "seeds=0", *AS_MADE).check()


def test_a_comparison_has_the_name_that_is_given_or_a_short_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mine = ["model.name=./models/tinyqwen3", "task.name=data/sums.jsonl", *LONG]
    assert re.fullmatch("compare-tinyqwen3-sums-[0-9a-f]{8}", default_folder(mine).name)
    assert read_grid(["grpo", "seeds=0", STEPS, "name=first"])[0].folder == Path("runs/first")
    assert read_grid(["grpo", "seeds=0", STEPS])[0].folder.name == f"compare-{STEPS}"
    with pytest.raises(UserError, match="name=first has no effect beside output="):
        read_grid(["grpo", "seeds=0", STEPS, "name=first", "output=x"])
    for name, why in (("", "name= is empty"), ("a/b", "name=a/b is no name of a folder"), ("..", "name=.. is no name")):
        with pytest.raises(UserError, match=why):
            read_grid(["grpo", "seeds=0", STEPS, f"name={name}"])


# ---- what is the same under the settings -----------------------------------------------------------------------------

ONE, TWO = "train.minibatches_per_step=1", "train.minibatches_per_step=2"


def test_a_row_that_cannot_differ_from_another_is_not_trained_and_a_warning_says_what_lets_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def rows(folder: str, *words: str) -> list[str]:
        return [entry.asked for entry in grid(tmp_path / folder, *words, "seeds=0", STEPS).objectives]

    clipped = ("grpo-kl", "grpo-kl+clip_higher", "grpo-kl+unclipped", "dapo")
    assert rows("one", *clipped, ONE) == ["grpo-kl", "dapo"]
    assert f"with {TWO}" not in caplog.text and f"; {TWO} lets clip, clip_higher act" in caplog.text
    assert rows("named", *clipped, ONE, "baseline=grpo-kl+clip_higher") == ["grpo-kl+clip_higher", "dapo"]
    assert rows("two", *clipped, TWO) == list(clipped)
    assert rows("own", f"grpo-kl {TWO}", f"grpo-kl+clip_higher {TWO}", "grpo-kl", "grpo-kl+clip_higher", ONE) == [
        "grpo-kl",
        "grpo-kl+clip_higher",
        "grpo-kl",
    ]


def test_a_row_that_has_runs_stays_beside_the_one_that_it_cannot_differ_from(tmp_path: Path) -> None:
    found = grid(tmp_path, "grpo-kl", "grpo-kl+clip_higher", TWO, *AS_MADE)
    alone = replace(found, words=tuple(ONE if word == TWO else word for word in found.words))
    alone.save()
    for cell in alone.cells:
        make_run(cell.folder.path, cell.entry.expression, cell.seed, 0.4, ONE)
    assert len(grid(tmp_path, "grpo-kl", "grpo-kl+clip_higher", ONE, *AS_MADE).objectives) == 2
