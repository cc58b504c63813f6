"""A grid: what it holds, that it goes on where it stopped, and that no process outlives it."""

import csv
import io
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

import rlzoo
from objectives import parse
from rlzoo.commands import main
from rlzoo.comparing.compare import CellRun, CellStatus, Eta, compare
from rlzoo.comparing.finished_runs import read_runs
from rlzoo.comparing.grid import Grid, RowName, leave_one_out, read_grid
from rlzoo.comparing.launchers import Local
from rlzoo.comparing.leaderboard import make_leaderboard
from rlzoo.config import load_config
from rlzoo.errors import UserError
from rlzoo.experiment import check as check_module
from rlzoo.files import read_json_lines
from rlzoo.report.grid_view import GridView
from rlzoo.report.leaderboard import comma_separated, markdown, page
from rlzoo.tasks import load_task
from tests.comparing.finished_runs import AS_MADE, make_run
from tests.conftest import error_of, interruptible
from tests.objectives.zoo_names import RECIPES

SMALL = (
    "rollout.prompts_per_step=2",
    "rollout.responses_per_prompt=2",
    "train.steps=2",
    "train.learning_rate=1e-3",
    "checkpoint.every=1",
    "evaluation.problems=4",
    "evaluation.samples=2",
    "task.problems=50",
)


def silent() -> GridView:
    """Shows nothing."""
    return GridView(Console(quiet=True))


def grid(output: Path, *words: str) -> Grid:
    """A grid of runs of seconds."""
    found, _ = read_grid([*words, *SMALL, f"output={output}"])
    return found


# ---- what a grid holds -----------------------------------------------------------------------------------------------


def test_expressions_files_and_keys_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text("train: {steps: 7}")
    words = [
        "stapo(tau_p=0.005,q=0.8)+clip_higher",
        f"{tmp_path}/my.yaml",
        "grpo",
        "seeds=3,1",
        "jobs=2",
        "train.steps=9",
    ]
    found, jobs = read_grid([*words, f"output={tmp_path}"])
    assert jobs == 2
    assert [(str(cell.row), cell.seed) for cell in found.cells] == [
        ("stapo(tau_p=0.005,q=0.8)", 3),
        ("grpo", 3),
        ("stapo(tau_p=0.005,q=0.8)", 1),
        ("grpo", 1),
    ]
    assert {cell.config.train.steps for cell in found.cells} == {9}
    assert all(load_config(cell.words) == cell.config for cell in found.cells)


def test_expressions_that_mean_the_same_are_one_row(tmp_path: Path) -> None:
    (entry,) = grid(tmp_path, "stapo-s2t", "justrl", "dapo-dynamic_sampling-soft_overlong").objectives
    assert (entry.asked, entry.name, entry.expression) == ("stapo-s2t", "stapo-s2t", "justrl")
    assert entry.key == parse("justrl").key


@pytest.mark.parametrize("recipe", RECIPES)
def test_an_ablation_removes_each_part_that_can_be_removed(recipe: str) -> None:
    whole, *rows = leave_one_out(recipe)
    assert whole == (parse(recipe), "")
    for objective, part in rows:
        assert part in {it.name for it in parse(recipe).parts} - {it.name for it in objective.parts}
    assert {part for _, part in rows} >= {part.name for part in parse(recipe).parts if not part.exclusive}


@pytest.mark.slow
def test_an_ablation_says_what_it_is_without_and_not_another_name(tmp_path: Path) -> None:
    found, _ = read_grid(["seeds=0,1", f"output={tmp_path}", *AS_MADE], ["justrl"])
    found.save()
    for number, cell in enumerate(found.cells):
        make_run(cell.folder.path, cell.entry.expression, cell.seed, 0.3 + 0.04 * number)
    runs, baseline, _ = read_runs([str(tmp_path)])
    board = make_leaderboard(runs, baseline)
    assert str(board.baseline.name) == "justrl"
    parts = {row.name.without for row in board.rows}
    assert "clip_higher" in parts and "" in parts and len(parts) == len(board.rows)
    assert {row.name for row in board.rows} == {cell.row for cell in found.cells}
    ablated = [row.name for row in board.rows if row.name.without]
    assert all(str(name) == f"justrl without {name.without}" for name in ablated)
    lines = list(csv.DictReader(io.StringIO(comma_separated(board))))
    assert {line["without"] for line in lines} == parts
    assert "| objective | without |" in markdown(board) and '<td class="text without">' in page(board)


def test_a_folder_keeps_what_earlier_calls_asked_for(tmp_path: Path) -> None:
    first = grid(tmp_path, "grpo", "stapo + clip_higher", "seeds=0,1")
    first.save()
    found = grid(tmp_path, "dapo", "stapo", "seeds=2")
    assert [entry.asked for entry in found.objectives] == ["grpo", "stapo + clip_higher", "dapo"]
    assert [entry.name for entry in found.objectives] == ["grpo", "stapo+clip_higher", "dapo"]
    assert found.seeds == (0, 1, 2) and found.objectives[:2] == first.objectives
    found.save()
    assert Grid.load(tmp_path).objectives == found.objectives


def test_every_cell_trains_what_its_key_says_in_a_folder_of_its_own(tmp_path: Path) -> None:
    long = "+".join(["stapo", *("kl(beta=0.1,estimator=k2,clamp=5)" for _ in range(8))])
    found, _ = read_grid(["dapo", long, "seeds=0,1", f"output={tmp_path}"], ["stapo+kl", "lopti"])
    folders = [cell.folder.path.name for cell in found.cells]
    assert len(set(folders)) == len(folders) and max(map(len, folders)) < 120
    assert {"stapo+kl-0", "stapo+kl-without-s2t-1", "lopti-without-lopti-0"} <= set(folders)
    for cell in found.cells:
        assert parse(load_config(cell.words).objective).key == cell.entry.key


def test_a_name_that_another_objective_has_gets_the_digest(tmp_path: Path) -> None:
    first = grid(tmp_path, "dapo")
    replace(first, objectives=(replace(first.objectives[0], name="stapo"),)).save()
    digest = parse("stapo").key.rpartition("#")[2]
    for _ in range(2):
        found = grid(tmp_path, "stapo")
        assert [entry.name for entry in found.objectives] == ["stapo", f"stapo-{digest}"]
        found.save()


def test_grids_of_other_settings_are_in_other_folders_and_each_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked: list[tuple[list[str], list[str]]] = [
        (["grpo", "dapo", "train.steps=2"], []),
        (["seeds=0,1"], ["stapo"]),
        (["grpo", "task.name=knights", 'log.project="a: b"', "rollout.top_p=0.5", "train.learning_rate=0.03"], []),
        (["grpo", "rollout.max_response_tokens=7", "evaluation.decodings=0.7/0.9", "seeds=3"], []),
    ]
    for words, ablated in asked:
        read_grid(words, ablated)[0].save()
    folders = [read_grid(words, ablated)[0].folder for words, ablated in asked]
    assert len({*folders}) == len(asked)
    assert [str(folder) for folder in folders[:2]] == ["runs/compare-train.steps=2", "runs/compare"]
    for (words, ablated), folder in zip(asked, folders, strict=True):
        found, _ = read_grid([*words, "seeds=5", "checkpoint.every=7", "jobs=2"], ablated)
        assert found.folder == folder and {*Grid.load(folder).seeds, 5} == {*found.seeds}
        steps = {"train.steps=2": 2, "task.name=knights": 50}
        expected = next((count for word, count in steps.items() if word in words), 60)
        assert {cell.config.train.steps for cell in found.cells} == {expected}
    assert read_grid(["grpo", "train.steps=+2"])[0].folder == folders[0]


def test_an_ablation_that_joins_a_grid_leaves_its_baseline(tmp_path: Path) -> None:
    grid(tmp_path, "grpo").save()
    assert read_grid([*SMALL, f"output={tmp_path}"], ["stapo"])[0].baseline == ""
    assert read_grid([*SMALL, "baseline=stapo", f"output={tmp_path}"], ["stapo"])[0].baseline == "stapo"


def test_a_cell_does_not_go_on_where_its_name_means_something_else_by_now(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = grid(tmp_path, "stapo+kl", "grpo")
    first.save()
    for cell in first.cells:
        make_run(cell.folder.path, cell.entry.expression)
    saved = (tmp_path / "grid.json").read_text()
    (tmp_path / "grid.json").write_text(saved.replace("q=0.75", "q=0.5"))
    again = grid(tmp_path, "stapo+kl")
    kept = [cell.folder.path.exists() for cell in again.cells]
    assert {cell.entry.key for cell in again.cells} == {cell.entry.key for cell in first.cells} and sum(kept) == 3
    line, *_ = (record.getMessage() for record in caplog.records)
    assert "stapo+kl has s2t(" in line and "q=0.75" in line and f"the grid in {tmp_path} has s2t(" in line
    assert line.endswith("stapo+kl is trained again")


def test_the_rows_of_a_grid_read_their_data_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[object] = []
    monkeypatch.setattr(check_module, "load_task", lambda *asked: loads.append(asked) or load_task(*asked))
    grid(tmp_path / "one", "grpo", "dapo", "grpo train.learning_rate=1e-4").check()
    assert len(loads) == 1
    grid(tmp_path / "two", "grpo", "dapo", "grpo rollout.max_prompt_tokens=64", "stapo").check()
    assert len(loads) == 4


def test_a_baseline_may_be_written_in_any_way(tmp_path: Path) -> None:
    for written in ("stapo", "stapo+clip_higher", "justrl + s2t"):
        found, _ = read_grid(["grpo", "stapo", f"baseline={written}", f"output={tmp_path}"])
        assert parse(found.baseline) == parse("stapo")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "nothing to compare"),
        (["grpo", "daapo"], "did you mean dapo"),
        (["grpo", "objective=dapo"], "'objective=dapo' has no effect on rlzoo compare"),
        (["grpo", "seed=1"], "'seed=1' has no effect on rlzoo compare"),
        (["grpo", "seeds=1,1"], "seeds=[1, 1] must be one or more different numbers"),
        (["grpo", "seeds=a"], "seeds"),
        (["grpo", "jobs=0"], "jobs=0 must be at least 1"),
        (["grpo", "baseline=dapo"], "baseline=dapo is not among what is compared: grpo"),
        (["grpo", "--ablate", "justrl", "baseline=dapo"], "what is compared: grpo, justrl, justrl-clip_higher"),
        (["grpo", "name=a.csv"], "a.csv is the name of a file, and a grid is a folder; choose another"),
        (["grpo", "train.stepz=1"], "did you mean train.steps"),
        (["grpo", "evaluation.decodings=[hot]"], "'hot' cannot be used"),
        (["grpo", "nowhere.yaml"], "nowhere.yaml"),
        (["grpo", "rollout.responses_per_prompt=1"], "group_norm"),
    ],
    ids=lambda value: value[-1] if value and isinstance(value, list) else None,
)
def test_a_mistake_is_one_clear_line_before_anything_runs(
    words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert says in error_of(capsys, "compare", *words)
    assert not Path("runs").exists()


def test_of_two_calls_at_once_neither_loses_the_rows_of_the_other(tmp_path: Path) -> None:
    first, second = grid(tmp_path / "grid", "grpo"), grid(tmp_path / "grid", "rloo", "seeds=4")
    assert first.up_to_date() is first
    (tmp_path / "grid").mkdir()
    first.save()
    second = second.up_to_date()
    second.save()
    saved = Grid.load(tmp_path / "grid")
    assert {entry.asked for entry in saved.objectives} == {"grpo", "rloo"} and saved.seeds == (0, 1, 2, 4)


# ---- running it ------------------------------------------------------------------------------------------------------


def table(folder: Path) -> list[dict[str, str]]:
    """The leaderboard without what differs: times, and where the runs lie."""
    with (folder / "leaderboard.csv").open() as file:
        return [{k: v for k, v in line.items() if "_per_s" not in k} for line in csv.DictReader(file)]


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
def test_a_grid_that_was_killed_three_times_ends_like_one_that_was_not(tmp_path: Path) -> None:
    words = ("grpo", "dapo-dynamic_sampling", "seeds=0", "jobs=2", *SMALL, "train.steps=3")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert main(["compare", *words, f"output={whole}"]) == 0
    command = [sys.executable, "-m", "rlzoo", "compare", *words, f"output={killed}"]
    for steps in (1, 3, 5):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while sum(len(read_json_lines(path)) for path in killed.glob("*/metrics.jsonl")) < steps:
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert main(command[3:]) == 0
    assert table(killed) == table(whole)


@pytest.fixture(scope="module")
def grid_of_one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which grpo is done."""
    folder = tmp_path_factory.mktemp("grid")
    assert compare(grid(folder, "grpo", "seeds=0"), 1, silent()) == []
    return folder


@pytest.mark.smoke
@pytest.mark.slow
def test_cells_that_are_done_are_not_run_again(tmp_path: Path, grid_of_one: Path) -> None:
    shutil.copytree(grid_of_one, tmp_path, dirs_exist_ok=True)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.parent.name != tmp_path.name}
    both = grid(tmp_path, "justrl", "seeds=0")
    assert compare(both, 1, silent()) == []
    assert [CellRun(cell).status().state for cell in both.cells] == ["done", "done"]
    assert all(path.stat().st_mtime_ns == time for path, time in before.items() if path.is_file())


def test_a_file_that_is_edited_meanwhile_changes_no_run(tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    file.write_text("train: {weight_decay: 0.2, shards: null}\nevaluation: {stop: ['a, b']}\ntask: {held_out: null}\n")
    found = grid(tmp_path / "grid", "grpo", str(file))
    found.save()
    file.write_text("train: {weight_decay: 0.3}\n")
    (kept,) = {cell.config.train.weight_decay for cell in Grid.load(tmp_path / "grid").cells}
    assert kept == load_config(found.cells[0].words).train.weight_decay == 0.2
    assert found.cells[0].config.evaluation.stop == ["a, b"]


@pytest.mark.slow
def test_a_grid_of_failed_runs_has_a_status_and_no_leaderboard(tmp_path: Path) -> None:
    (tmp_path / "grpo-0").mkdir()
    (tmp_path / "grpo-0" / "notes.txt").touch()
    found = rlzoo.compare("grpo", *SMALL, seeds=1, output=tmp_path, progress=False)
    assert len(found.failures) == 1 and found.table.empty and not found.runs
    assert main(["compare", "grpo", "seeds=0", *SMALL, f"output={tmp_path}"]) == 1


@pytest.mark.slow
def test_a_cell_that_fails_costs_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "grpo-0").mkdir()
    (tmp_path / "grpo-0" / "notes.txt").touch()
    assert main(["compare", "grpo", "justrl", "seeds=0", *SMALL, f"output={tmp_path}"]) == 1
    output = capsys.readouterr()
    assert "grpo seed 0 failed: rlzoo: error: " in output.err and "1 of 2 runs failed" in output.err
    assert "justrl" in output.out and "1 of the 2 runs" in output.out
    assert main(["compare", "grpo", "justrl", "seeds=0", *SMALL, f"output={tmp_path}"]) == 1
    assert (tmp_path / "logs" / "grpo-0.txt").read_text().count("rlzoo: error: ") == 2, "what a cell said first is lost"


@pytest.mark.smoke
@pytest.mark.slow
def test_an_interrupted_grid_leaves_no_process_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rlzoo", "compare", "grpo", "justrl", "seeds=0", "jobs=2", *SMALL]
    command += ["train.steps=500", f"output={tmp_path}"]
    process = interruptible(command)
    while len(list(tmp_path.glob("*/metrics.jsonl"))) < 2:
        assert process.poll() is None
        time.sleep(0.05)
    children = _children(process.pid)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=600)
    assert process.returncode == 130 and "the same command goes on" in error and "Traceback" not in error
    assert len(children) > 2 and not any(Path(f"/proc/{child}/cmdline").exists() for child in children)


def _children(parent: int) -> list[str]:
    """All processes below one, whose runs are forked from a template."""
    below = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [name for child in below for name in (child, *_children(int(child)))]


def test_the_time_left_is_that_of_the_steps_left_at_the_pace_of_this_call() -> None:
    def at(*steps: int) -> list[CellStatus]:
        states = ("done" if step == 50 else "running" if step else "waiting" for step in steps)
        return [
            CellStatus(RowName("grpo"), 0, state, step, 50, None) for step, state in zip(steps, states, strict=True)
        ]

    eta = Eta.of(at(20, 0), 100.0)
    assert eta.left(at(20, 0), 108.0) is None, "starting a run is no step"
    assert eta.left(at(25, 0), 110.0) == 10 / 5 * 75 and eta.left(at(50, 10), 140.0) == 40
    assert eta.left(at(10, 0), 140.0) is None, "a resumed run begins at its checkpoint, before its last step"
    failed = [*at(50), replace(at(10)[0], state="failed")]
    assert eta.left(failed, 140.0) == 0


def test_each_process_gets_its_share_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)))
    environments = [Local(jobs=3).environment(slot) for slot in range(3)]
    assert [it["OMP_NUM_THREADS"] for it in environments] == ["2"] * 3
    assert Local(jobs=1, gpus=2).environment(0)["OMP_NUM_THREADS"] == "4"  # one process for each GPU
    assert [it["CUDA_VISIBLE_DEVICES"] for it in environments] == ["0", "1", "0"]
    assert "CUDA_VISIBLE_DEVICES" not in Local().environment(0)
    assert Local(gpus=0).environment(0)["CUDA_VISIBLE_DEVICES"] == ""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    assert [Local(2, 2).environment(slot)["CUDA_VISIBLE_DEVICES"] for slot in range(2)] == ["4,5", "6,7"]
    with pytest.raises(UserError, match="gpus=2 for each of jobs=3 are 6; there are 4 here"):
        Local(3, 2)
